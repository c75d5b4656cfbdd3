"""One test over all boots: what it measured, what went wrong in which build, and when no boot can add to that."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_pinet.ab.boots import of_known_good
from pytest_pinet.ab.pings import Pings
from pytest_pinet.ab.series import TurnSeries
from pytest_pinet.errors import (
    BuildError,
    ConsoleError,
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

# What a build may be the cause of, or the lab: whether the known-good build has it, too, tells.
DOUBTFUL = (ConsoleError, LinkError, SshError, TrafficError)


@dataclass
class BootTrouble:
    """Something that kept a test from measuring in one boot; ``opening``: before any traffic."""

    side: Side
    error: PinetError
    opening: bool
    no_device: bool = False

    @property
    def kind(self) -> str:
        """What it is when it is the build's."""
        if self.no_device:
            return "no driver"
        if isinstance(self.error, InvalidMeasurement):
            return "slow link"
        if isinstance(self.error, ConsoleError | SshError):
            return "hang"
        return "no link" if self.opening else "no traffic"


@dataclass
class ABTestState:
    """``error`` is how it ends, a skip among it; None while it goes on, and where its figures say how.

    ``link`` is what its latest boot opened.
    """

    item: pytest.Item
    series: list[TurnSeries | Pings] = field(default_factory=list)
    calls: int = 0
    turns: list[Side] = field(default_factory=list)
    troubles: list[BootTrouble] = field(default_factory=list)
    error: BaseException | None = None
    link: Link | None = None

    @property
    def done(self) -> bool:
        """Whether no further boot is made for it."""
        if self.error is not None:
            return True
        in_doubt = bool(self.troubles) and not self.series
        return bool(self.turns) and all(one.decided for one in self.series) and not in_doubt

    def begin(self, side: Side) -> None:
        """Run in one more boot."""
        self.turns.append(side)
        self.calls = 0

    def add(self, series: TurnSeries | Pings) -> None:
        """Keep what a gate call measures, from its first boot on."""
        if len(self.series) < self.calls:
            self.series.append(series)

    def trouble(self, side: Side, error: PinetError, opening: bool, no_device: bool = False) -> None:
        """Something ended it in this boot: that is the end at once, or the next boots tell whose fault it is."""
        wrong_link = isinstance(error, InvalidMeasurement) and opening
        if isinstance(error, DOUBTFUL) or wrong_link:
            self.troubles.append(BootTrouble(side, error, opening, no_device))
            if side is Side.A:
                self.error = error
        elif isinstance(error, KernelError) and side is Side.A:
            self.error = of_known_good(error, "broke")
        else:
            self.error = error

    def end_turn(self, side: Side) -> None:
        """After a boot of the known-good build in which nothing went wrong, what B always did is B's."""
        of_b = [one for one in self.troubles if one.side is Side.B]
        if side is Side.B or self.error is not None or len(of_b) < OFTEN or self.turns.count(Side.B) > len(of_b):
            return
        last = of_b[-1]
        self.error = BuildError(
            f"{first_line(last.error)}; so it was in {len(of_b)} of {len(of_b)} turns of the build under test, "
            f"and in none of {self.turns.count(Side.A)} of the known-good build",
            last.kind,
            last.error.excerpt,
        )

    def give_up(self) -> None:
        """No more boots are made: what is still in doubt is the lab's to look at."""
        if self.error is None and self.troubles and not self.done:
            self.error = self.troubles[-1].error
        for one in self.series:
            one.give_up()
