"""What the planner keeps of tests and workers while a run goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from pytest_pinet.scheduling.plan import Job, Needs

Worker = Hashable


@dataclass(eq=False)
class Group:
    """Tests with the same needs that nobody has been given; ``owner`` is the worker that is in the middle of them."""

    needs: Needs
    number: int
    jobs: deque[Job] = field(default_factory=deque)
    total_s: float = 0.0
    owner: Worker | None = None


@dataclass(eq=False)
class Load:
    """What a worker has been given and not finished, in its order, and since when it runs the first.

    A worker that has been told that nothing more comes has ``ended``: it finishes what it has.
    """

    pending: deque[Job] = field(default_factory=deque)
    since: float = 0.0
    ended: bool = False
