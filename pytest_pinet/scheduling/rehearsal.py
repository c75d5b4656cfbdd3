"""Simulates the rest of a run: when it would end by the estimates if its groups began in a given order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from pytest_pinet.scheduling.plan import PlannedTest

# Two workers keep a domain busy if about half of a test is traffic. A third one would mostly wait.
CROWD = 2
# If two rehearsals end at the same time, the one with less waiting for domains counts as earlier.
WAITING_COST = 0.001


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
        """Make a block of tests with the same needs, at least one.

        The time besides traffic is half before, half after it.
        """
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
