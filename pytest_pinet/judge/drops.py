"""Decide whose fault dropped links are: a drop of the tested link alone may be the device's, others are the lab's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_pinet.judge.attempt_level import BROKEN
from pytest_pinet.judge.attempts import Try
from pytest_pinet.model.limits import Limit

# With so many tries in which links dropped, others than the link under test among them, the lab is faulty.
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

    def is_own(self, one: Try) -> bool:
        """Return whether only the link under test dropped."""
        return self.is_alone(one.dropped)

    def drops(self, tries: Sequence[Try]) -> int:
        """Return how often the link under test dropped. Both ends of one cable see each drop."""
        return sum(max(map(one.dropped.count, self.own)) for one in tries if self.is_own(one))

    def too_many(self, tries: Sequence[Try]) -> bool:
        """Return whether the link under test dropped too often.

        Without a limit, it may drop in one try: several drops in one try can be one disturbance.
        """
        if self.limit is None or not isinstance(self.limit.bound, int):
            return sum(map(self.is_own, tries)) > 1
        return self.drops(tries) > self.limit.bound

    def lab_is_faulty(self, tries: Sequence[Try]) -> bool:
        """Return whether tries were lost repeatedly, and not only by drops of the link under test."""
        lost = [one for one in tries if one.dropped or any(event.kind in BROKEN for event in one.events)]
        return len(lost) >= DROPS_MAX and not all(self.is_own(one) for one in lost)
