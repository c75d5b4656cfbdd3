"""Decide whose fault dropped links are: a drop of the tested link alone may be the device's, others are the lab's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_pinet.judge.level import BROKEN
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.limits import Limit

# With so many connections in which links dropped, others than the link under test among them, the lab is faulty.
DROPS_MAX = 2


@dataclass(frozen=True)
class DropRule:
    """How often the link under test may drop. ``own`` are the ends whose carrier is only that of the link under test.

    An accepted baseline has no drops: `pinet accept` takes no run in which a link dropped.
    """

    own: Collection[int]
    limit: Limit | None = None

    def is_alone(self, ends: Collection[int]) -> bool:
        """Return whether all these ends, the device under test among them, belong to the link under test.

        If other links dropped, too, the switch or its power is at fault.
        """
        return 0 in ends and set(ends) <= set(self.own)

    def is_own(self, one: Connection) -> bool:
        """Return whether only the link under test dropped."""
        return self.is_alone(one.dropped)

    def drops(self, connections: Sequence[Connection]) -> int:
        """Return how often the link under test dropped. Both ends of one cable see each drop."""
        return sum(max(map(one.dropped.count, self.own)) for one in connections if self.is_own(one))

    def too_many(self, connections: Sequence[Connection]) -> bool:
        """Return whether the link under test dropped too often.

        Without a limit, it may drop in one connection: several drops in one connection can be one disturbance.
        """
        if self.limit is None or not isinstance(self.limit.bound, int):
            return sum(map(self.is_own, connections)) > 1
        return self.drops(connections) > self.limit.bound

    def lab_is_faulty(self, connections: Sequence[Connection]) -> bool:
        """Return whether connections were lost repeatedly, and not only by drops of the link under test."""
        lost = [one for one in connections if one.dropped or any(event.kind in BROKEN for event in one.link_events)]
        return len(lost) >= DROPS_MAX and not all(self.is_own(one) for one in lost)
