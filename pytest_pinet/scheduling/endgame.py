"""Chooses the last groups of a run, and all groups of a small run, by simulating the rest of the run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from pytest_pinet.scheduling.plan import Needs, PlannedTest
from pytest_pinet.scheduling.rehearsal import Block, WorkerLane, rehearse
from pytest_pinet.scheduling.work import Group, Load, Worker, WorkerLeases

# With many more groups, the errors of the estimates outweigh the gain of a rehearsal. On 40 generated labs of 50 nodes
# and 8 workers the median rose from 1.12 times the lower bound to 1.14 with 30 groups.
FEW_GROUPS = 12
# This limit keeps a decision below 5 ms on average.
FEW_WORKERS = 16
# How many groups to try: the groups that can begin first, and among these the most urgent ones.
CHOICES = 6
# How many orders to try at each decision. Tries add up, because the next decision begins with the best order so far.
TRIES = 20
# The least gain of leaving a worker idle, as a share of the rest of the run. Without it, a tie or a slightly wrong
# estimate would leave a worker without work.
IDLING_COST = 0.005


class Endgame:
    """Keeps the best order found so far for the groups that are left."""

    def __init__(self) -> None:
        # A fixed seed, so that every run is planned the same way.
        self._random = random.Random(0)
        self._rank: dict[Needs, int] = {}

    def choose(
        self, worker: Worker, now: float, free: Sequence[Group], start: Mapping[Needs, float],
        loads: Mapping[Worker, Load], groups: Mapping[Needs, Group], leases: WorkerLeases
    ) -> Group | None:  # fmt: skip
        """Return the group to give to this worker, or None if the worker should get no group now.

        ``free`` has the groups without an owner, most urgent first. ``start`` says when this worker could begin each
        group. A worker with pending tests that gets no more tests ends. This is an option only while another worker is
        idle and can take its part.
        """
        order = sorted(free, key=lambda group: self._rank.get(group.needs, len(self._rank)))
        others = [load for other, load in loads.items() if other is not worker]
        busy = bool(loads[worker].pending)
        choices: list[Group | None] = [*sorted(order, key=lambda group: start[group.needs])]
        if not busy:
            choices = [group for group in choices if group is not None and start[group.needs] <= now]
        del choices[CHOICES:]
        # Another worker can take this part, or this worker can come back when another one has finished.
        if any(not load.pending and not load.ended if busy else load.pending for load in others):
            choices.append(None)
        if len(choices) == 1:
            return choices[0]
        blocks, lanes = self._stage(order, loads, groups, leases)
        mine = list(loads).index(worker)

        def end(choice: Group | None, order: Sequence[Group], limit: float) -> float:
            staged = list(lanes)
            if choice is not None:
                staged[mine] = replace(lanes[mine], blocks=(*lanes[mine].blocks, blocks[choice.needs]))
                if not busy:
                    staged[mine] = replace(staged[mine], since=now)
            else:
                staged[mine] = replace(lanes[mine], open=not busy, pauses=not busy)
            end_s = rehearse(now, staged, [blocks[group.needs] for group in order if group is not choice], limit)
            return end_s if choice is not None else end_s + (end_s - now) * IDLING_COST

        best, best_s = choices[0], float("inf")
        for choice in choices:
            end_s = end(choice, order, best_s)
            if end_s < best_s:
                best, best_s = choice, end_s
        for _ in range(TRIES):
            other = list(order)
            other.insert(self._random.randrange(len(order)), other.pop(self._random.randrange(len(order))))
            choice = self._random.choice((best, self._random.choice(choices)))
            end_s = end(choice, other, best_s)
            if end_s < best_s:
                best, best_s, order = choice, end_s, other
        self._rank = {group.needs: rank for rank, group in enumerate(order)}
        return best

    def _stage(
        self, free: Sequence[Group], loads: Mapping[Worker, Load], groups: Mapping[Needs, Group], leases: WorkerLeases
    ) -> tuple[dict[Needs, Block], list[WorkerLane]]:
        """Return the groups without an owner as blocks, and each worker with the rest of its own group."""
        bits: dict[str, int] = {}

        def block(jobs: Sequence[PlannedTest]) -> Block:
            return Block.of(jobs, sum(bits.setdefault(place, 1 << len(bits)) for place in jobs[0].needs.places))

        lanes = []
        for worker, load in loads.items():
            parts = [list(jobs) for _, jobs in groupby(load.pending, key=lambda job: job.needs)]
            group = groups.get(load.pending[-1].needs) if load.pending else None
            if group is not None and group.owner is worker:
                parts[-1] += group.jobs
            since = leases.since(worker) if parts else None
            lanes.append(WorkerLane(tuple(block(jobs) for jobs in parts), since, open=not load.ended))
        return {group.needs: block(group.jobs) for group in free}, lanes
