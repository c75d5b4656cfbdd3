"""When a run would end by the estimates, were its groups begun in a given order: a simulation of the rest of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from pytest_pinet.scheduling.plan import Job

# Two workers keep a domain busy where about half of a test is measuring; a third one would mostly wait.
CROWD = 2
# So that of two rehearsals that end together the one counts as the earlier in which workers wait less for domains.
WAITING_COST = 0.001


@dataclass(frozen=True, slots=True)
class Block:
    """Tests that a worker does one after another on the same places (bits of ``mask``), split where they measure.

    ``gaps_s`` has the seconds before each measurement since the one before it, ``tail_s`` those after the last.
    """

    mask: int
    domains: frozenset[str]
    gaps_s: tuple[float, ...]
    traffic_s: tuple[float, ...]
    tail_s: float

    @classmethod
    def of(cls, jobs: Sequence[Job], mask: int) -> Block:
        """Of tests with the same needs, at least one; a test works as long before it measures as after."""
        halves = [(job.total_s - job.traffic_s) / 2 for job in jobs]
        gaps = tuple(before + half for before, half in zip([0.0, *halves], halves, strict=False))
        return cls(mask, jobs[0].needs.domains, gaps, tuple(job.traffic_s for job in jobs), halves[-1])


@dataclass(frozen=True, slots=True)
class Lane:
    """A worker and the blocks that it is to do.

    ``since`` is when its first test began, None while that waits for its places. A lane takes more only when it is
    ``open``; one that ``pauses`` does so when another has finished a block.
    """

    blocks: tuple[Block, ...]
    since: float | None = None
    open: bool = True
    pauses: bool = False


def rehearse(now: float, lanes: Sequence[Lane], order: Iterable[Block], limit: float = float("inf")) -> float:
    """When the last block ends (s, on the clock of ``now``), or infinity when nobody does some of them.

    A lane with nothing to do takes the first block in order whose places nobody has or waits for, if possible one
    whose domains are not crowded. Measurements come in the order in which they are asked for. At ``limit`` the
    rehearsal is broken off: what it returns is then no less than that.
    """
    return _Rehearsal(now, lanes, order).run(limit)


class _Rehearsal:
    def __init__(self, now: float, lanes: Sequence[Lane], order: Iterable[Block]) -> None:
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
        # When each lane asks for its next measurement or, after its last, ends its block.
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

    def _measure(self, lane: int, block: Block, asked: float) -> None:
        done = self._measured[lane]
        start = asked
        for domain in block.domains:
            start = max(start, self._domain_free_at.get(domain, asked))
        self._waited_s += start - asked
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
        # A worker keeps the places that its next test needs; others that wait for them come after it.
        keeps = bool(self._given[lane]) and bool(self._given[lane][-1].mask & block.mask)
        self._idle.insert(0 if keeps else len(self._idle), lane)

    def _go_on(self, lane: int, time: float) -> bool:
        """Begin what a lane was given or can take; whether there was anything."""
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
            # By identity: blocks that are equal are of different groups.
            del self._order[next(number for number, block in enumerate(self._order) if block is found)]
        return found
