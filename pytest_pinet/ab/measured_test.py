"""The state of one test over all boots: its measurements, its troubles by build, and whether it needs more boots."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_pinet.ab.boots import known_good_error
from pytest_pinet.ab.series import PingSeries, TurnSeries
from pytest_pinet.errors import (
    BuildError,
    ConsoleError,
    DroppedLink,
    InvalidMeasurement,
    KernelError,
    LinkError,
    PinetError,
    SshError,
    TrafficError,
    first_line,
)
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.judge.pings import OFTEN
from pytest_pinet.lab.link.link import Link

# The build or the lab can cause these errors. It is the lab if the known-good build has the error, too.
DOUBTFUL = (ConsoleError, LinkError, SshError, TrafficError)


@dataclass
class BootTrouble:
    """An error that kept a test from measuring in one boot. ``opening``: it came before any traffic."""

    side: Side
    error: PinetError
    opening: bool
    no_device: bool = False

    @property
    def kind(self) -> str:
        """The kind of the finding if the build is the cause."""
        if self.no_device:
            return "no driver"
        if isinstance(self.error, InvalidMeasurement):
            return "slow link"
        if isinstance(self.error, ConsoleError | SshError):
            return "hang"
        if isinstance(self.error, DroppedLink):
            return "link drops"
        return "no link" if self.opening else "no traffic"


@dataclass
class ABTestState:
    """``calls`` counts the gate calls of the current boot; ``link`` is the link of the latest boot.

    ``error`` ends the test, and can be a skip. It is None while the test goes on, or if its values decide the outcome.
    """

    item: pytest.Item
    series: list[TurnSeries | PingSeries] = field(default_factory=list)
    calls: int = 0
    turns: list[Side] = field(default_factory=list)
    troubles: list[BootTrouble] = field(default_factory=list)
    error: BaseException | None = None
    link: Link | None = None

    @property
    def done(self) -> bool:
        """Whether the test needs no more boots."""
        if self.error is not None:
            return True
        in_doubt = bool(self.troubles) and not self.series
        return bool(self.turns) and all(one.decided for one in self.series) and not in_doubt

    def begin(self, side: Side) -> None:
        """Begin to run the test in a boot of this build."""
        self.turns.append(side)
        self.restart()

    def restart(self) -> None:
        """Begin to run the test again: its gate calls return their values in the order of the calls."""
        self.calls = 0

    def next_call(self) -> int:
        """Return the number of this gate call in the current run of the test, from 0."""
        self.calls += 1
        return self.calls - 1

    def open(self, link: Link) -> None:
        """Keep the link of the current boot."""
        self.link = link

    def end(self, error: BaseException) -> None:
        """End the test with this error or skip."""
        self.error = error

    def add(self, series: TurnSeries | PingSeries) -> None:
        """Keep the measurements of the current gate call, from its first boot on."""
        if len(self.series) < self.calls:
            self.series.append(series)

    def add_trouble(self, side: Side, error: PinetError, opening: bool, no_device: bool = False) -> None:
        """Note the error of this boot. It ends the test, unless later boots can show its cause."""
        wrong_link = isinstance(error, InvalidMeasurement) and opening
        if isinstance(error, DOUBTFUL) or wrong_link:
            self.troubles.append(BootTrouble(side, error, opening, no_device))
            if side is Side.A:
                self.error = error
        elif isinstance(error, KernelError) and side is Side.A:
            self.error = known_good_error(error, "broke")
        else:
            self.error = error

    def end_turn(self, side: Side) -> None:
        """Blame build B if each of its boots had an error, and no boot of the known-good build, this one included."""
        of_b = [one for one in self.troubles if one.side is Side.B]
        if side is Side.B or self.error is not None or len(of_b) < OFTEN or self.turns.count(Side.B) > len(of_b):
            return
        last = of_b[-1]
        self.error = BuildError(
            f"{first_line(last.error)}; all {len(of_b)} turns of the build under test had an error, "
            f"and none of the {self.turns.count(Side.A)} turns of the known-good build",
            last.kind,
            last.error.excerpt,
        )

    def give_up(self) -> None:
        """End the test, because there are no more boots. An error with an unknown cause becomes an error of the lab."""
        if self.error is None and self.troubles and not self.done:
            self.error = self.troubles[-1].error
        for one in self.series:
            one.give_up()
