"""Chooses the last groups of a run, and all groups of a small run, by simulating the rest of the run."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import groupby

from pytest_pinet.scheduling.plan import Group, Load, Needs, PlannedTest, Worker, WorkerLeases

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
# Two workers keep a domain busy if about half of a test is traffic. A third one would mostly wait.
CROWD = 2
# If two rehearsals end at the same time, the one with less waiting for domains counts as earlier.
WAITING_COST = 0.001


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


@dataclass(frozen=True, slots=True)
class Block:
    """Tests that a worker runs one after another on the same places (bits of ``mask``), split at their measurements.

    ``gaps_s`` has the seconds before each measurement, since the one before it. ``tail_s`` has the seconds after the
    last.
    """

    mask: int
    domains: frozenset[str]
    gaps_s: tuple[float, ...]
    traffic_s: tuple[float, ...]
    tail_s: float

    @classmethod
    def of(cls, jobs: Sequence[PlannedTest], mask: int) -> Block:
        """Make a block of tests with the same needs. Half of the time besides traffic is before it, half after."""
        halves = [(job.total_s - job.traffic_s) / 2 for job in jobs]
        gaps = tuple(before + half for before, half in zip([0.0, *halves], halves, strict=False))
        return cls(mask, jobs[0].needs.domains, gaps, tuple(job.traffic_s for job in jobs), halves[-1])


@dataclass(frozen=True, slots=True)
class WorkerLane:
    """A worker and its blocks.

    ``since`` is when its first test began; None while it waits for its places. A lane takes further blocks only if it
    is ``open``. A lane that ``pauses`` first waits until another lane has finished a block.
    """

    blocks: tuple[Block, ...]
    since: float | None = None
    open: bool = True
    pauses: bool = False


def rehearse(now: float, lanes: Sequence[WorkerLane], order: Iterable[Block], limit: float = float("inf")) -> float:
    """Return when the last block ends (s, on the clock of ``now``), or infinity if some blocks are never done.

    A lane with nothing to do takes the first block in order whose places no lane has or waits for, if possible one
    whose domains are not crowded. Measurements run in the order of requests. The rehearsal stops at ``limit``. The
    return value is then at least ``limit``.
    """
    return _Rehearsal(now, lanes, order).run(limit)


class _Rehearsal:
    def __init__(self, now: float, lanes: Sequence[WorkerLane], order: Iterable[Block]) -> None:
        self._now = now
        self._order = list(order)
        self._open = [lane.open for lane in lanes]
        self._given = [list(reversed(lane.blocks)) for lane in lanes]
        self._running: list[Block | None] = [None for _ in lanes]
        self._measured = [0 for _ in lanes]
        self._idle: list[int] = []
        self._waited_s = 0.0
        self._held = 0
        self._crowd: dict[str, int] = {}
        self._domain_free_at: dict[str, float] = {}
        # When each lane requests its next measurement or, after its last one, ends its block.
        self._events: list[tuple[float, int]] = []
        for lane, it in enumerate(lanes):
            if it.blocks and it.since is not None:
                self._begin(lane, self._given[lane].pop(), it.since)
            elif it.blocks or it.pauses:
                self._idle.append(lane)
            else:
                heappush(self._events, (now, lane))

    def run(self, limit: float) -> float:
        end = self._now
        while self._events:
            time, lane = heappop(self._events)
            block = self._running[lane]
            if block is not None and self._measured[lane] < len(block.gaps_s):
                self._measure(lane, block, time)
                continue
            if time + self._waited_s * WAITING_COST >= limit:
                return limit
            if block is not None:
                end = time
                self._finish(lane, block)
            else:
                self._idle.append(lane)
            self._idle = [lane for lane in self._idle if not self._go_on(lane, time)]
        done = not self._order and not any(self._given)
        return end + self._waited_s * WAITING_COST if done else float("inf")

    def _begin(self, lane: int, block: Block, time: float) -> None:
        self._running[lane] = block
        self._measured[lane] = 0
        self._held |= block.mask
        for domain in block.domains:
            self._crowd[domain] = self._crowd.get(domain, 0) + 1
        heappush(self._events, (time + block.gaps_s[0], lane))

    def _measure(self, lane: int, block: Block, requested: float) -> None:
        done = self._measured[lane]
        start = requested
        for domain in block.domains:
            start = max(start, self._domain_free_at.get(domain, requested))
        self._waited_s += start - requested
        stop = start + block.traffic_s[done]
        self._domain_free_at.update(dict.fromkeys(block.domains, stop))
        self._measured[lane] = done = done + 1
        then = stop + (block.gaps_s[done] if done < len(block.gaps_s) else block.tail_s)
        # A test that takes longer than expected ends now at the earliest.
        heappush(self._events, (max(then, self._now), lane))

    def _finish(self, lane: int, block: Block) -> None:
        self._running[lane] = None
        self._held &= ~block.mask
        for domain in block.domains:
            self._crowd[domain] -= 1
        # A worker keeps the places that its next test needs. Other workers that wait for these places come later.
        keeps = bool(self._given[lane]) and bool(self._given[lane][-1].mask & block.mask)
        self._idle.insert(0 if keeps else len(self._idle), lane)

    def _go_on(self, lane: int, time: float) -> bool:
        """Begin the next block of a lane, given or taken. Return whether there was one."""
        given = self._given[lane]
        block = None
        if given:
            if not given[-1].mask & self._held:
                block = given.pop()
        elif self._open[lane]:
            block = self._take()
        if block is None:
            return False
        self._begin(lane, block, time)
        return True

    def _take(self) -> Block | None:
        taken = self._held
        for blocks in self._given:
            for block in blocks:
                taken |= block.mask
        free = [block for block in self._order if not block.mask & taken]
        calm = (block for block in free if all(self._crowd.get(domain, 0) < CROWD for domain in block.domains))
        found = next(calm, free[0] if free else None)
        if found is not None:
            # By identity: equal blocks can belong to different groups.
            del self._order[next(number for number, block in enumerate(self._order) if block is found)]
        return found
