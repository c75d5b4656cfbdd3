"""Decide whose fault dropped links are: a drop of the tested link alone may be the device's, others are the lab's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_pinet.judge.attempt_level import BROKEN
from pytest_pinet.judge.attempts import Try
from pytest_pinet.model.limits import Limit

# By default a link may drop once, which may have been a disturbance.
USUAL = 1
# With so many tries in which links dropped, others than the link under test among them, the lab is faulty.
DROPS_MAX = 2


@dataclass(frozen=True)
class DropRule:
    """How often the link under test may drop. ``own`` are the ends whose carrier is only that of the link under test.

    An accepted baseline has no drops: `pinet accept` takes no run in which a link dropped.
    """

    own: Collection[int]
    limit: Limit | None = None

    @property
    def allowed(self) -> int:
        """The number of drops that are allowed in one measurement."""
        return self.limit.bound if self.limit is not None and isinstance(self.limit.bound, int) else USUAL

    def is_own(self, one: Try) -> bool:
        """Return whether only the link under test dropped. If others dropped, too, it was the switch or its power."""
        return 0 in one.dropped and one.dropped <= set(self.own)

    def too_many(self, tries: Sequence[Try]) -> bool:
        """Return whether the link under test dropped too often."""
        return sum(self.is_own(one) for one in tries) > self.allowed

    def lab_is_faulty(self, tries: Sequence[Try]) -> bool:
        """Return whether tries were lost repeatedly, and not only by drops of the link under test."""
        lost = [one for one in tries if one.dropped or any(event.kind in BROKEN for event in one.events)]
        return len(lost) >= DROPS_MAX and not all(self.is_own(one) for one in lost)
