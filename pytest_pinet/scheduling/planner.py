"""The pure core: which test a worker is given next.

Tests that need the same places are one group and stay on one worker, which keeps the nodes booted. A worker that needs
another group gets the one with the most work behind it (the busiest node or domain first, which is what the makespan
hangs on) among those whose nodes nobody uses by then, and whose domain is not saturated; tests that need no lab fill
gaps. xdist's workers start a test only when they know the one after it, so each decision is one test early, and a
worker that cannot wait may have to be given a group whose nodes are still in use: its lease then waits. Where few
groups are left, as in small labs from the beginning, ``endgame`` rehearses each choice instead.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence

from pytest_pinet.scheduling.endgame import FEW_GROUPS, FEW_WORKERS, Endgame
from pytest_pinet.scheduling.leases import Leases
from pytest_pinet.scheduling.plan import Job, Needs
from pytest_pinet.scheduling.work import Group, Load, Worker

# What a group is set back by whose worker would measure half of its time in a domain that is always busy (the shares
# add up to 1.5), against one that the end of the run hangs on half as much.
CROWD_COST = 1.0
NODE_WEIGHT = 0.2
# From here on a test that needs no lab is the better one to run now.
FULL = 0.5


class Planner:
    """Hands out tests; ``now`` is the caller's clock in seconds, only ever compared with itself."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._groups: dict[Needs, Group] = {}
        self._fillers: deque[Job] = deque()
        self._loads: dict[Worker, Load] = {}
        # Seconds of work that are not done, of each place and domain.
        self._left: dict[str, float] = {}
        # All work that is not done; and that of each domain, if one worker did it.
        self._work_s = 0.0
        self._serial: dict[str, float] = {}
        # By domains, so that a full one is passed over at once; highest priority first, as it was when pushed,
        # of equal ones the longest.
        self._heaps: dict[frozenset[str], list[tuple[float, float, int, Group]]] = {}
        self._unassigned = 0
        # Those with tests that no worker is in the middle of.
        self._unowned: set[Group] = set()
        self._leases = Leases()
        self._endgame = Endgame()
        for job in jobs:
            self._add(job)

    @property
    def unassigned(self) -> int:
        """How many tests no worker has been given."""
        return self._unassigned

    @property
    def workers(self) -> list[Worker]:
        return list(self._loads)

    def add_worker(self, worker: Worker) -> None:
        self._loads[worker] = Load()

    def pending(self, worker: Worker) -> list[Job]:
        """What a worker has been given and not finished, in its order."""
        return list(self._loads[worker].pending)

    def done(self, worker: Worker, index: int, now: float) -> None:
        """A worker has finished a test."""
        load = self._loads[worker]
        job = next(job for job in load.pending if job.index == index)
        load.pending.remove(job)
        load.since = now
        self._weigh(job, -1.0)
        needs = load.pending[0].needs.places if load.pending else frozenset()
        self._leases.release(worker, now, keep=needs)
        if load.pending:
            self._leases.ask(worker, needs, now)

    def remove_worker(self, worker: Worker) -> list[Job]:
        """A worker is gone: what it had not finished, the one that it ran first; the rest of its groups is free again.

        The jobs are not given to anybody else before ``requeue``.
        """
        load = self._loads.pop(worker)
        self._leases.remove(worker)
        for job in load.pending:
            self._weigh(job, -1.0)
        for group in self._groups.values():
            if group.owner is worker:
                group.owner = None
                self._push(group)
        return list(load.pending)

    def requeue(self, job: Job) -> None:
        """Give this test to somebody again, ahead of others of its group."""
        self._add(job, first=True)

    def next(self, worker: Worker, now: float) -> Job | None:
        """The test that this worker is to run after what it has; None when there is nothing for it.

        A worker that has something to do ends when it is given nothing; one that has nothing may come back when others
        have finished.
        """
        load = self._loads[worker]
        group = self._own_group(worker)
        if group is None:
            free_s = self._ends(load, now)
            if len(self._unowned) > FEW_GROUPS or len(self._loads) > FEW_WORKERS:
                group, filler = self._free_group(worker, now, free_s)
            else:
                group, filler = self._rehearsed_group(worker, now, free_s)
            if self._fillers and filler:
                return self._give(worker, self._fillers.popleft(), now)
            if group is None:
                load.ended = bool(load.pending)
                return None
            group.owner = worker
            self._unowned.discard(group)
        assert group.jobs, "an exhausted group has no owner"
        return self._give(worker, group.jobs.popleft(), now, group)

    def _give(self, worker: Worker, job: Job, now: float, group: Group | None = None) -> Job:
        load = self._loads[worker]
        self._unassigned -= 1
        if group is not None:
            group.total_s -= job.total_s
            if not group.jobs:
                # Whatever comes back to it after a crash is anybody's.
                group.owner = None
        load.pending.append(job)
        if len(load.pending) == 1:
            load.since = now
            self._leases.ask(worker, job.needs.places, now)
        return job

    def _own_group(self, worker: Worker) -> Group | None:
        """The group that this worker is in the middle of."""
        pending = self._loads[worker].pending
        group = self._groups.get(pending[-1].needs) if pending else None
        if group is not None and group.owner is worker and group.jobs:
            return group
        return None

    # -- choosing a group -----------------------------------------------------------------------------------------

    def _rehearsed_group(self, worker: Worker, now: float, free_s: float) -> tuple[Group | None, bool]:
        """The unowned group to begin with by rehearsal, and whether a test that needs no lab had better come before."""
        if not self._unowned:
            return None, True
        starts = self._starts(self._busy_until(worker, now), free_s)
        free = sorted(self._unowned, key=lambda group: (-self._urgency(group), -group.total_s, group.number))
        group = self._endgame.choose(worker, now, free, starts, self._loads, self._groups, self._leases)
        return group, group is None or starts[group.needs] > free_s

    def _free_group(self, worker: Worker, now: float, free_s: float) -> tuple[Group | None, bool]:
        """The unowned group to begin with, and whether a test that needs no lab had better come before it.

        Of those whose nodes are free when this worker is, the one that the end of the run hangs on most, less what
        would be lost by waiting for others of its domain; a worker that cannot wait takes what is free first.
        """
        busy_until = self._busy_until(worker, now)
        shares = self._shares(worker)
        # No run ends earlier than its busiest node or domain, or than all of its workers together.
        rest_s = max(self._work_s / len(self._loads), max(self._left.values(), default=0.0), 1e-9)
        best: Group | None = None
        best_score, best_crowd = -float("inf"), 0.0
        for domains, heap in self._heaps.items():
            crowd = max((shares.get(domain, 0.0) + self._share(domain) - 1.0 for domain in domains), default=0.0)
            crowd = max(crowd, 0.0)
            domain_s = max((self._left[_domain(domain)] for domain in domains), default=0.0)
            aside = []
            while heap:
                negative, length, number, group = heapq.heappop(heap)
                if group.owner is not None or not group.jobs:
                    continue
                priority = self._priority(group)
                if priority < -negative:
                    # Some of its work has been done elsewhere since it was pushed.
                    heapq.heappush(heap, (-priority, -group.total_s, number, group))
                    continue
                aside.append((negative, length, number, group))
                # Where the domain decides, the busiest node in it still goes first, or the end is left to one worker.
                score = (max(priority, domain_s) + priority * NODE_WEIGHT) / rest_s - crowd * CROWD_COST
                if score <= best_score:
                    break
                if all(busy_until.get(place, 0.0) <= free_s for place in group.needs.places):
                    best, best_score, best_crowd = group, score, crowd
                    break
            for entry in aside:
                heapq.heappush(heap, entry)
        if best is None and self._loads[worker].pending:
            starts = self._starts(busy_until, free_s)
            first = sorted(self._unowned, key=lambda g: (starts[g.needs], -self._priority(g), g.number))
            return next(iter(first), None), True
        return best, best is None or best_crowd >= FULL

    def _share(self, domain: str) -> float:
        """The share of its time that a worker measures in this domain."""
        return self._left[_domain(domain)] / max(self._serial[domain], 1e-9)

    def _shares(self, worker: Worker) -> dict[str, float]:
        """The same, added up for all other workers that are in a domain now."""
        shares: dict[str, float] = {}
        for other, load in self._loads.items():
            if other is not worker and load.pending:
                job = load.pending[-1]
                for domain in job.needs.domains:
                    shares[domain] = shares.get(domain, 0.0) + job.traffic_s / max(job.total_s, 1e-9)
        return shares

    def _starts(self, busy_until: dict[str, float], free_s: float) -> dict[Needs, float]:
        """When a worker that is free then could begin each unowned group."""
        return {
            group.needs: max(free_s, *(busy_until.get(place, 0.0) for place in group.needs.places))
            for group in self._unowned
        }

    def _urgency(self, group: Group) -> float:
        """How much the end of the run hangs on a group (s): its busiest node or domain, and more so its node.

        Where the domain decides, the busiest node in it still goes first, or the end is left to one worker.
        """
        domain_s = max((self._left[_domain(domain)] for domain in group.needs.domains), default=0.0)
        priority = self._priority(group)
        return max(priority, domain_s) + priority * NODE_WEIGHT

    def _priority(self, group: Group) -> float:
        """The work that is left on its busiest node."""
        return max(self._left[place] for place in group.needs.places)

    def _ends(self, load: Load, now: float) -> float:
        """When a worker will have finished what it has been given."""
        total_s = sum(job.total_s for job in load.pending)
        first_s = load.pending[0].total_s if load.pending else 0.0
        return now + total_s - min(now - load.since, first_s) if load.pending else now

    def _busy_until(self, worker: Worker, now: float) -> dict[str, float]:
        """When other workers will have finished with each place that they use."""
        until: dict[str, float] = {}
        for other, load in self._loads.items():
            if other is worker or not load.pending:
                continue
            end = now - min(now - load.since, load.pending[0].total_s)
            for job in load.pending:
                end += job.total_s
                # The rest of a group that it is in the middle of comes after the last of it.
                rest = self._groups[job.needs].total_s if job is load.pending[-1] and job.needs.places else 0.0
                for place in job.needs.places:
                    until[place] = max(until.get(place, 0.0), end + rest)
        return until

    def _add(self, job: Job, first: bool = False) -> None:
        self._unassigned += 1
        self._weigh(job, 1.0)
        if not job.needs.places:
            (self._fillers.appendleft if first else self._fillers.append)(job)
            return
        group = self._groups.get(job.needs)
        if group is None:
            group = self._groups[job.needs] = Group(job.needs, len(self._groups))
        (group.jobs.appendleft if first else group.jobs.append)(job)
        group.total_s += job.total_s
        if len(group.jobs) == 1 or first:
            self._push(group)

    def _weigh(self, job: Job, sign: float) -> None:
        """Add a test to the work that is not done, or take it away."""
        self._work_s += sign * job.total_s
        for place in job.needs.places:
            self._left[place] = self._left.get(place, 0.0) + sign * job.total_s
        for domain in job.needs.domains:
            self._left[_domain(domain)] = self._left.get(_domain(domain), 0.0) + sign * job.traffic_s
            self._serial[domain] = self._serial.get(domain, 0.0) + sign * job.total_s

    def _push(self, group: Group) -> None:
        if group.jobs and group.owner is None:
            self._unowned.add(group)
            # Not below what it is now: only a priority that has fallen is noticed later.
            heap = self._heaps.setdefault(group.needs.domains, [])
            heapq.heappush(heap, (-float("inf"), -group.total_s, group.number, group))


def _domain(name: str) -> str:
    """A domain's key beside those of places, which have names of their own."""
    return f"domain {name}"
