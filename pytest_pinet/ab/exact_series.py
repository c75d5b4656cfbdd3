"""The boots of both builds on one exact board: one of each, and more until the answer on each window is certain."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pytest_pinet.ab.boots import known_good_error
from pytest_pinet.errors import BuildError, InvalidMeasurement, PinetError, UnsupportedError
from pytest_pinet.judge.exact import MOST_BOOTS, ExactChange, ExactLimits, differs_beside_build, judge_exact
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.model.exact import ExactIdentity, MadeExactBoot
from pytest_pinet.session.exact_machines import PlannedExactBoot

# One for each of the processors that even a small machine has. More wait for room (``exact/room.py``).
_AT_ONCE = 2
# A boot by the number of its meaningless change.
Turn = tuple[int, Side]


class ExactSeries:
    """The boots of both builds for one NIC. Each test that judges them has its own limits, and may need more boots."""

    def __init__(
        self, nic: str, a: PlannedExactBoot, b: PlannedExactBoot, name_of_a: str, say: Callable[[str], None]
    ) -> None:
        """``name_of_a`` is empty if A is the build under test, too."""
        self._nic = nic
        self._plans = {Side.A: a, Side.B: b}
        self._name_of_a = name_of_a
        self._say = say
        self._boots: dict[Turn, MadeExactBoot] = {}
        self._broken: PinetError | None = None
        self._lock = threading.Lock()

    @property
    def boots(self) -> Mapping[Turn, MadeExactBoot]:
        """All boots so far, by the numbers of their meaningless changes."""
        return dict(sorted(self._boots.items()))

    @property
    def identity(self) -> ExactIdentity | None:
        """What ran with B; None before its first boot has ended."""
        made = self._boots.get((0, Side.B))
        return None if made is None else made.boot.identity

    def judge(self, limits: ExactLimits) -> ExactChange:
        """Boot both builds until the answer on each window is certain, and return it.

        Raises BuildError, UnsupportedError and LabError of the boots, and InvalidMeasurement.
        """
        with self._lock:
            if self._broken is not None:
                # An exact board gives the same result each time.
                raise self._broken
            self._make([(0, Side.A)])
            self._make([(0, Side.B)])
            found = self._judged(limits)
            more = [(number, side) for number in range(1, MOST_BOOTS) for side in Side]
            if found.uncertain:
                # What is known costs no boot.
                self._make([turn for turn in more if not self._plans[turn[1]].boots(turn[0])])
                found = self._judged(limits)
            more = [turn for turn in more if turn not in self._boots]
            if found.uncertain and more:
                self._say(self._why(found, len(more)))
            while found.uncertain and more:
                self._make(more[:_AT_ONCE])
                more = more[_AT_ONCE:]
                found = self._judged(limits)
            return found

    def _why(self, found: ExactChange, more: int) -> str:
        """Return why both builds boot again, in a sentence that fits in one line of progress."""
        first, *others = (one.b.name for one in found.uncertain)
        windows = f"{first} and {len(others)} more" if others else first
        return f"{self._nic}: {windows} beyond the limit; up to {more} more boots decide"

    def _make(self, turns: Sequence[Turn]) -> None:
        """Make these boots at the same time, unless they were made before.

        If both builds fail, the known-good build, which comes first, is to blame.
        """
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            boots = {
                (number, side): threads.submit(self._plans[side].make, number)
                for number, side in turns
                if (number, side) not in self._boots
            }
        for (number, side), made in boots.items():
            try:
                self._boots[number, side] = made.result()
            except UnsupportedError as error:
                self._broken = error
                raise
            except BuildError as error:
                if side is Side.B or not self._name_of_a:
                    self._broken = error
                    raise
                self._broken = known_good_error(error, self._name_of_a)
                raise self._broken from error

    def _judged(self, limits: ExactLimits) -> ExactChange:
        a, b = ({number: made.boot for (number, own), made in self.boots.items() if own is side} for side in Side)
        if why := differs_beside_build(a[0].identity, b[0].identity):
            raise InvalidMeasurement(f"{self._nic}: {why}")
        found = judge_exact(a[0], b[0], limits, (a, b))
        if found.missing or not found.windows:
            why = "; ".join(found.missing) or "neither boot has a window of traffic"
            raise InvalidMeasurement(f"{self._nic}: the boots cannot be compared: {why}")
        return found
