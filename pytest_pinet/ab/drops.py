"""Drops of a link in the turns of both builds, also between connections: whether B is to blame for them."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.errors import BuildError, LabError
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.execution.undo import at_once
from pytest_pinet.judge.events import DropRule
from pytest_pinet.judge.shares import Events, judge_turns
from pytest_pinet.judge.turns import Side
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.preconditions import own_carriers
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.verdict import Verdict


class LinkTurns:
    """The turns of the link of one NIC, which all tests of the NIC share. ``error_rate`` is that of blaming B."""

    def __init__(self, error_rate: float) -> None:
        self._error_rate = error_rate
        # By the number of the turn: the build, and whether the link dropped.
        self._turns: dict[int, tuple[Side, bool]] = {}
        self._seen: tuple[object, Sequence[int | None]] = (None, ())

    def begin(self, number: int, side: Side) -> None:
        """Begin to run a test in this turn."""
        self._turns.setdefault(number, (side, False))

    def accept(self, link: Link) -> None:
        """Read how often each end lost or got its carrier until now, and expect that."""
        self._seen = (link.tunings, len(link.tried)), at_once(_carrier_changes, link.ends)

    def look(self, link: Link, connections: Sequence[Connection] = ()) -> None:
        """Note a drop of the link under test alone since the last look, or in one of these connections.

        A tuning may take the link down and up, so changes before and after a tuning say nothing.
        """
        tuned, before = self._seen
        self.accept(link)
        now, rule = self._seen[1], DropRule(own_carriers(link))
        both = enumerate(zip(before, now, strict=True)) if tuned == self._seen[0] else ()
        changed = [end for end, (old, new) in both if old is not None and new is not None and new > old]
        if rule.is_alone(changed) or any(map(rule.is_own, connections)):
            self.note()

    def note(self) -> None:
        """Note that the link dropped in this turn."""
        last = max(self._turns)
        self._turns[last] = self._turns[last][0], True

    def _of(self, side: Side) -> Events:
        return Events.of(dropped for own, dropped in self._turns.values() if own is side)

    @property
    def verdict(self) -> Verdict | None:
        """FAIL if B is to blame, PASS if nothing says so; None requires another turn."""
        return judge_turns(self._of(Side.B), self._of(Side.A), self._error_rate)

    @property
    def text(self) -> str:
        """In how many turns the link dropped; empty if it never did."""
        a, b = self._of(Side.A), self._of(Side.B)
        if not a.bad and not b.bad:
            return ""
        return (
            f"the link dropped in {b.bad} of {b.count} turns of the build under test, "
            f"and in {a.bad} of {a.count} of the known-good build"
        )

    @property
    def error(self) -> BuildError | None:
        """The finding if B is to blame."""
        return BuildError(self.text, "link drops") if self.verdict is Verdict.FAIL else None


def _carrier_changes(end: End) -> int | None:
    try:
        text = end.shell.run(f"cat /sys/class/net/{end.device}/carrier_changes 2>/dev/null").stdout.strip()
    except LabError:
        # Who needs the end next reports that it does not answer.
        return None
    return int(text) if is_count(text) else None
