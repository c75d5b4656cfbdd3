"""The last groups of a run, and small runs: the choice after which a rehearsal of the rest ends earliest."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from pytest_pinet.scheduling.leases import Leases
from pytest_pinet.scheduling.plan import Job, Needs
from pytest_pinet.scheduling.rehearsal import Block, Lane, rehearse
from pytest_pinet.scheduling.work import Group, Load, Worker

# With many more groups than these, what a rehearsal finds is lost in the error of the estimates before it matters: on
# 40 generated labs of 50 nodes and 8 workers the median rose from 1.12 times the lower bound to 1.14 with 30.
FEW_GROUPS = 12
# So that a decision stays below 5 ms on average.
FEW_WORKERS = 16
# Groups that are tried: those that can begin first, of these the most urgent ones.
CHOICES = 6
# Orders that are tried at each decision; they add up, since the best one is where the next decision begins.
TRIES = 20
# What giving a worker nothing has to gain, as a share of the rest of the run: else a tie, or an estimate that is a
# little wrong, would leave a worker without work.
IDLING_COST = 0.005


class Endgame:
    """Keeps the best order found so far in which to begin the groups that are left."""

    def __init__(self) -> None:
        # A run is to be the same each time.
        self._random = random.Random(0)
        self._rank: dict[Needs, int] = {}

    def choose(
        self, worker: Worker, now: float, free: Sequence[Group], start: Mapping[Needs, float],
        loads: Mapping[Worker, Load], groups: Mapping[Needs, Group], leases: Leases
    ) -> Group | None:  # fmt: skip
        """The group that this worker is to be given, or None when it had better be given nothing.

        ``free`` has the groups that nobody owns, most urgent first; ``start`` is when this worker could begin each.
        A worker that has something to do and is given nothing more ends, which is an option only while another one
        idles that can take its part.
        """
        order = sorted(free, key=lambda group: self._rank.get(group.needs, len(self._rank)))
        others = [load for other, load in loads.items() if other is not worker]
        busy = bool(loads[worker].pending)
        choices: list[Group | None] = [*sorted(order, key=lambda group: start[group.needs])]
        if not busy:
            choices = [group for group in choices if group is not None and start[group.needs] <= now]
        del choices[CHOICES:]
        # Somebody takes its part, or somebody's end is where it comes back.
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
        self, free: Sequence[Group], loads: Mapping[Worker, Load], groups: Mapping[Needs, Group], leases: Leases
    ) -> tuple[dict[Needs, Block], list[Lane]]:
        """The groups that nobody owns, and each worker with the rest of the group that it is in the middle of."""
        bits: dict[str, int] = {}

        def block(jobs: Sequence[Job]) -> Block:
            return Block.of(jobs, sum(bits.setdefault(place, 1 << len(bits)) for place in jobs[0].needs.places))

        lanes = []
        for worker, load in loads.items():
            parts = [list(jobs) for _, jobs in groupby(load.pending, key=lambda job: job.needs)]
            group = groups.get(load.pending[-1].needs) if load.pending else None
            if group is not None and group.owner is worker:
                parts[-1] += group.jobs
            since = leases.since(worker) if parts else None
            lanes.append(Lane(tuple(block(jobs) for jobs in parts), since, open=not load.ended))
        return {group.needs: block(group.jobs) for group in free}, lanes
