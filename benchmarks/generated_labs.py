"""Labs and runs of tests of any size, and the least time that a run can take whatever the schedule."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from pytest_pinet.scheduling.plan import Job, Needs

RACK = 10
# All subsets of so many combinations are looked at, and all ways of giving them to workers.
FEW = 8


def generate(nodes: int, seed: int) -> tuple[list[Job], dict[int, tuple[float, float]]]:
    """Tests for a lab of so many nodes, and what each of them really takes (total, traffic; s).

    Racks of ten nodes share a switch uplink, so a rack is a contention domain; a lab of up to ten nodes is one host
    that carries them all. Each node is under test with a peer of its rack, some racks in an incast too, with two to six
    tests a combination. Tests take up to a quarter more or less than expected.
    """
    rng = random.Random(seed)
    racks = [range(start, min(start + RACK, nodes)) for start in range(0, nodes, RACK)]
    jobs: list[Job] = []
    actual: dict[int, tuple[float, float]] = {}

    def add(places: Sequence[int], rack: int) -> None:
        needs = Needs(frozenset(f"n{place}" for place in places), frozenset({f"rack{rack}"}))
        for _ in range(rng.randint(2, 6)):
            traffic_s = rng.uniform(3, 12)
            total_s = traffic_s * rng.uniform(1.3, 2.0)
            index = len(jobs)
            jobs.append(Job(index, needs, total_s, traffic_s))
            noise = rng.uniform(0.75, 1.25)
            actual[index] = (total_s * noise, traffic_s * noise)

    for number, rack in enumerate(racks):
        uses = dict.fromkeys(rack, 0)
        for dut in rack:
            # Peers are spread, as those of a real run are.
            peer = min((node for node in rack if node != dut), key=lambda node: (uses[node], rng.random()))
            uses[peer] += 1
            add((dut, peer), number)
        if len(rack) >= 4 and rng.random() < 0.3:
            add(rng.sample(list(rack), 4), number)
    return jobs, actual


def lower_bound(jobs: Sequence[Job], actual: Mapping[int, tuple[float, float]], workers: int) -> tuple[float, str]:
    """The least that any schedule needs (s) with the tests of a set of nodes on one worker, and which bound that is.

    - the work of the busiest node, and of combinations of which few can run at once (``_crowded_part``);
    - the measuring of the busiest domain, whole tests where a combination excludes all others of the domain, and the
      least time before the first and after the last measurement;
    - the share of all work that each worker has, and what is left of it when combinations are not split
      (``_unsplit``).
    """
    groups: dict[Needs, list[Job]] = {}
    sums: dict[str, float] = {}
    for job in jobs:
        groups.setdefault(job.needs, []).append(job)
        for place in job.needs.places:
            sums[f"node {place}"] = sums.get(f"node {place}", 0.0) + actual[job.index][0]
    seconds = {needs: sum(actual[job.index][0] for job in groups[needs]) for needs in groups}
    sums["workers"] = sum(seconds.values()) / workers
    sums["unsplit"] = _unsplit(sorted(seconds.values(), reverse=True), workers)
    for domain in {domain for needs in groups for domain in needs.domains}:
        inside = [needs for needs in groups if domain in needs.domains]
        measuring = 0.0
        for needs in inside:
            alone = all(needs.places & other.places for other in inside)
            measuring += sum(actual[job.index][0 if alone else 1] for job in groups[needs])
        around = [actual[job.index][0] - actual[job.index][1] for needs in inside for job in groups[needs]]
        # A test works as long before it measures as after; alone, its own is counted above.
        sums[f"domain {domain}"] = measuring + (min(around) if len(inside) > 1 else 0.0)
        if len(inside) <= FEW:
            sums[f"part of {domain}"] = _crowded_part(inside, seconds, workers)
    name = max(sums, key=lambda key: sums[key])
    return sums[name], name


def _crowded_part(inside: Sequence[Needs], seconds: Mapping[Needs, float], workers: int) -> float:
    """The most that any subset of combinations needs (s): its work, shared by as many of it as can run at once.

    Proof: at no time do more of a subset run than it has combinations that share no node, or than there are workers; so
    a run of L seconds does at most L times that number of the subset's work. One of which no two can run at once is
    a chain, and needs all of its work.
    """
    clash = [sum(1 << at for at, other in enumerate(inside) if one.places & other.places) for one in inside]
    work, at_once = [0.0], [0]
    best = 0.0
    for subset in range(1, 1 << len(inside)):
        last = subset.bit_length() - 1
        rest = subset & ~(1 << last)
        work.append(work[rest] + seconds[inside[last]])
        # Either the last one does not run, or it does and those that share a node with it do not.
        at_once.append(max(at_once[rest], 1 + at_once[rest & ~clash[last]]))
        best = max(best, work[subset] / min(at_once[subset], workers))
    return best


def _unsplit(lengths: Sequence[float], workers: int) -> float:
    """The least that the busiest worker has to do (s) when each combination is done by one worker; longest first.

    Exact for a few combinations: all ways of giving them out are looked at. Else a bound: of the n * workers + 1
    longest, one worker has n + 1 at least, which are no shorter than the n + 1 shortest of them.
    """
    if len(lengths) > FEW:
        return max(
            sum(lengths[n * workers - n : n * workers + 1]) for n in range((len(lengths) - 1) // workers + 1)
        )  # fmt: skip
    loads = {(0.0,) * workers}
    for length in lengths:
        # Workers are alike, so only how much each has counts, not which has it.
        loads = {
            tuple(sorted((*some[:at], some[at] + length, *some[at + 1 :])))
            for some in loads
            for at in range(workers)
            if at == 0 or some[at] != some[at - 1]
        }
    return min(max(some) for some in loads)
