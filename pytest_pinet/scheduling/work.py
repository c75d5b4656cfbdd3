"""The planner's state of tests and workers during a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from pytest_pinet.scheduling.plan import Needs, PlannedTest

Worker = Hashable


@dataclass(eq=False)
class Group:
    """Tests with the same needs that no worker has got yet. ``owner`` is the worker that has begun the group."""

    needs: Needs
    number: int
    jobs: deque[PlannedTest] = field(default_factory=deque)
    total_s: float = 0.0
    owner: Worker | None = None


@dataclass(eq=False)
class Load:
    """The tests that a worker has got and not finished, in its order. ``since`` is when the first one began.

    ``ended``: the worker gets no more tests and finishes its pending ones.
    """

    pending: deque[PlannedTest] = field(default_factory=deque)
    since: float = 0.0
    ended: bool = False
