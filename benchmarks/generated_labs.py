"""Generates labs with tests of any size, and computes a lower bound of a run's duration for any schedule."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from pytest_pinet.scheduling.planner import Needs, PlannedTest

RACK = 10
# Up to this number of combinations, all subsets and all assignments to workers are tried.
FEW = 8


def generate(nodes: int, seed: int) -> tuple[list[PlannedTest], dict[int, tuple[float, float]]]:
    """Return tests for a lab of ``nodes`` nodes, and the actual seconds of each test (total, traffic).

    Ten nodes form a rack, which shares a switch uplink and so is one contention domain. A lab of up to ten nodes is one
    rack. Each node is under test with a peer of its rack; some racks also have an incast. A combination has two to six
    tests. Actual durations differ from the expected ones by up to a quarter.
    """
    rng = random.Random(seed)
    racks = [range(start, min(start + RACK, nodes)) for start in range(0, nodes, RACK)]
    jobs: list[PlannedTest] = []
    actual: dict[int, tuple[float, float]] = {}

    def add(places: Sequence[int], rack: int) -> None:
        needs = Needs(frozenset(f"n{place}" for place in places), frozenset({f"rack{rack}"}))
        for _ in range(rng.randint(2, 6)):
            traffic_s = rng.uniform(3, 12)
            total_s = traffic_s * rng.uniform(1.3, 2.0)
            index = len(jobs)
            jobs.append(PlannedTest(index, needs, total_s, traffic_s))
            noise = rng.uniform(0.75, 1.25)
            actual[index] = (total_s * noise, traffic_s * noise)

    for number, rack in enumerate(racks):
        uses = dict.fromkeys(rack, 0)
        for dut in rack:
            # Spread the peers over the nodes, as a real run does.
            peer = min((node for node in rack if node != dut), key=lambda node: (uses[node], rng.random()))
            uses[peer] += 1
            add((dut, peer), number)
        if len(rack) >= 4 and rng.random() < 0.3:
            add(rng.sample(list(rack), 4), number)
    return jobs, actual


def lower_bound(
    jobs: Sequence[PlannedTest], actual: Mapping[int, tuple[float, float]], workers: int
) -> tuple[float, str]:
    """Return a lower bound of any schedule (s), and the name of the bound.

    One worker runs all tests of a set of nodes.

    The bound is the largest of:

    - the work of the busiest node, and of combinations of which only few can run at once (``_crowded_part``);
    - the traffic time of the busiest domain, with the whole test where a combination excludes all others of the domain,
      and the minimum time before the first and after the last measurement;
    - the average work per worker, and the minimum for the busiest worker if combinations are not split (``_unsplit``).
    """
    groups: dict[Needs, list[PlannedTest]] = {}
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
        alone = {needs for needs in inside if all(needs.places & other.places for other in inside)}
        measuring = sum(actual[job.index][0 if needs in alone else 1] for needs in inside for job in groups[needs])
        around = [actual[job.index][0] - actual[job.index][1] for needs in inside for job in groups[needs]]
        # A test takes the same time before its traffic as after. If the first and the last combination are alone, both
        # times are already counted.
        sums[f"domain {domain}"] = measuring + (0.0 if alone else min(around))
        if len(inside) <= FEW:
            sums[f"part of {domain}"] = _crowded_part(inside, seconds, workers)
    name = max(sums, key=lambda key: sums[key])
    return sums[name], name


def _crowded_part(inside: Sequence[Needs], seconds: Mapping[Needs, float], workers: int) -> float:
    """Return the largest bound of any subset of combinations (s): its work, divided by how many can run at once.

    Proof: of a subset, never more combinations run at once than it has combinations without a common node, or than
    there are workers. So in L seconds at most L times that number of the subset's work is done. If no two combinations
    can run at once, the subset is a chain and needs all of its work.
    """
    clash = [sum(1 << at for at, other in enumerate(inside) if one.places & other.places) for one in inside]
    work, at_once = [0.0], [0]
    best = 0.0
    for subset in range(1, 1 << len(inside)):
        last = subset.bit_length() - 1
        rest = subset & ~(1 << last)
        work.append(work[rest] + seconds[inside[last]])
        # Either the last combination does not run, or it runs and all that share a node with it do not.
        at_once.append(max(at_once[rest], 1 + at_once[rest & ~clash[last]]))
        best = max(best, work[subset] / min(at_once[subset], workers))
    return best


def _unsplit(lengths: Sequence[float], workers: int) -> float:
    """Return the minimum work of the busiest worker (s) if one worker runs each combination; longest first.

    Exact for a few combinations: all assignments are tried. Otherwise a bound: of the n * workers + 1 longest ones, one
    worker has at least n + 1, which together are not shorter than the n + 1 shortest of them.
    """
    if len(lengths) > FEW:
        return max(
            sum(lengths[n * workers - n : n * workers + 1]) for n in range((len(lengths) - 1) // workers + 1)
        )  # fmt: skip
    loads = {(0.0,) * workers}
    for length in lengths:
        # Workers are equal, so only the loads matter, not which worker has which.
        loads = {
            tuple(sorted((*some[:at], some[at] + length, *some[at + 1 :])))
            for some in loads
            for at in range(workers)
            if at == 0 or some[at] != some[at - 1]
        }
    return min(max(some) for some in loads)
