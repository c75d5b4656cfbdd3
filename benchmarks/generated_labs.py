"""Labs and runs of tests of any size, and the least time that a run can take whatever the schedule."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations

from pytest_pinet.scheduling.plan import Job, Needs

RACK = 10
# All subsets of so many combinations are looked at for a longest chain.
LARGEST_CHAIN = 8


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
    """The least that any schedule needs (s), and which bound that is.

    - the work of the busiest node, and of combinations each of which shares a node with each other (the critical path);
    - the measuring of the busiest domain, whole tests where a combination excludes all others of the domain, and the
      least time before the first and after the last measurement;
    - the share of all work that each worker has.
    """
    sums = {"workers": sum(actual[job.index][0] for job in jobs) / workers}
    groups: dict[Needs, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.needs, []).append(job)
        for place in job.needs.places:
            sums[f"node {place}"] = sums.get(f"node {place}", 0.0) + actual[job.index][0]
    for domain in {domain for needs in groups for domain in needs.domains}:
        inside = [needs for needs in groups if domain in needs.domains]
        seconds = 0.0
        for needs in inside:
            alone = all(needs.places & other.places for other in inside)
            seconds += sum(actual[job.index][0 if alone else 1] for job in groups[needs])
        around = [actual[job.index][0] - actual[job.index][1] for needs in inside for job in groups[needs]]
        # A test works as long before it measures as after; alone, its own is counted above.
        sums[f"domain {domain}"] = seconds + (min(around) if len(inside) > 1 else 0.0)
        if len(inside) <= LARGEST_CHAIN:
            sums[f"chain in {domain}"] = _longest_chain(inside, groups, actual)
    name = max(sums, key=lambda key: sums[key])
    return sums[name], name


def _longest_chain(
    inside: Sequence[Needs], groups: Mapping[Needs, Sequence[Job]], actual: Mapping[int, tuple[float, float]]
) -> float:
    """The most work in combinations of which no two can run at once, whichever order they take."""
    seconds = {needs: sum(actual[job.index][0] for job in groups[needs]) for needs in inside}
    best = 0.0
    for size in range(1, len(inside) + 1):
        for chain in combinations(inside, size):
            if all(one.places & other.places for one, other in combinations(chain, 2)):
                best = max(best, sum(seconds[needs] for needs in chain))
    return best
