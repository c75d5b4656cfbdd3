"""Run all tests of a board in each of its boots, before pytest itself runs the first test of the board.

pytest runs one test after the other, but a comparison of builds needs reboots, which take long. So each boot serves all
tests of its board. The boots alternate: A B B A B A A B. In each boot, the bodies of all collected tests of the board
run once, and each of their gate calls measures a few connections. This goes on until each value is certain, or until no
boot is left. Then pytest runs each test once more at its usual place, so that reports and ``-x`` work as usual: now the
gate calls return the judged values, and no node is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from pytest_pinet.ab.boots import BuildBooter, known_good_error
from pytest_pinet.ab.series import EventSeries, TurnSeries, ValueSeries
from pytest_pinet.errors import (
    BuildError,
    ConsoleError,
    DroppedLink,
    Inconclusive,
    InvalidMeasurement,
    KernelError,
    LabError,
    LinkError,
    PinetError,
    SshError,
    TagsLostError,
    TrafficError,
    first_line,
)
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.execution.undo import at_once
from pytest_pinet.judge.events import DropRule
from pytest_pinet.judge.shares import Events, judge_turns
from pytest_pinet.judge.turns import OFTEN, Side, side
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.preconditions import own_carriers
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.lab import Node
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.session.parametrizer import case_of

# The build or the lab can cause these errors. It is the lab if the known-good build has the error, too.
DOUBTFUL = (ConsoleError, LinkError, SshError, TagsLostError, TrafficError)


class LinkTurns:
    """The drops of the link of one NIC in the turns of its tests, also between connections.

    ``error_rate`` is that of blaming B.
    """

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
    ``drops`` has the drops of its link.
    """

    item: pytest.Item
    drops: LinkTurns
    series: list[TurnSeries | EventSeries | ValueSeries] = field(default_factory=list)
    calls: int = 0
    turns: list[Side] = field(default_factory=list)
    troubles: list[BootTrouble] = field(default_factory=list)
    error: BaseException | None = None
    link: Link | None = None

    @property
    def done(self) -> bool:
        """Whether the test needs no more boots."""
        if self.error is not None or self.drops.verdict is Verdict.FAIL:
            return True
        in_doubt = (bool(self.troubles) and not self.series) or self.drops.verdict is None
        return bool(self.turns) and all(one.decided for one in self.series) and not in_doubt

    def begin(self, turn: int, side: Side) -> None:
        """Begin to run the test in a boot of this build."""
        self.turns.append(side)
        self.drops.begin(turn, side)
        self.restart()

    def restart(self) -> None:
        self.calls = 0

    def next_call(self) -> int:
        """Return the number of this gate call in the current run of the test, from 0."""
        self.calls += 1
        return self.calls - 1

    def open(self, link: Link) -> None:
        """Keep the link of the current boot. Until now, its carrier was taken away and given back on purpose."""
        self.link = link
        self.drops.accept(link)

    def end(self, error: BaseException) -> None:
        self.error = error

    def add(self, series: TurnSeries | EventSeries | ValueSeries) -> None:
        """Keep the measurements of the current gate call, from its first boot on."""
        if len(self.series) < self.calls:
            self.series.append(series)

    def add_trouble(self, side: Side, error: PinetError, opening: bool, no_device: bool = False) -> None:
        """Note the error of this boot. It ends the test, unless later boots can show its cause."""
        wrong_link = isinstance(error, InvalidMeasurement) and opening
        if isinstance(error, DroppedLink):
            self.drops.note()
        if isinstance(error, DOUBTFUL) or wrong_link:
            self.troubles.append(BootTrouble(side, error, opening, no_device))
            if side is Side.A:
                self.error = error
        elif isinstance(error, KernelError) and side is Side.A:
            self.error = known_good_error(error, "broke")
        else:
            self.error = error

    def end_turn(self, side: Side) -> None:
        """Blame build B if each of its boots had an error, and no boot of A, this one included."""
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
        self.error = self.error or self.drops.error
        if self.error is None and self.troubles and not self.done:
            self.error = self.troubles[-1].error
        for one in self.series:
            one.give_up()


def board_of(item: pytest.Item | None) -> str:
    """Return the node under test; empty for a test that needs no lab."""
    case = case_of(item)
    return "" if case is None else case.combination.dut.node.name


class Boards:
    """Runs the tests of each board in a row, because a boot serves all of them. Registered as a plugin."""

    def __init__(self) -> None:
        self._items: dict[str, list[pytest.Item]] = {}

    def kept(self, nextitem: pytest.Item | None) -> list[Node]:
        """Return the nodes of all tests of the next board."""
        cases = [case_of(item) for item in self._items.get(board_of(nextitem), [])]
        return list({node.name: node for case in cases if case for node in case.combination.nodes}.values())

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests by board; tests that need no lab keep their places."""
        places = [place for place, item in enumerate(items) if board_of(item)]
        boards = list(dict.fromkeys(board_of(items[place]) for place in places))
        in_rows = sorted((items[place] for place in places), key=lambda item: boards.index(board_of(item)))
        for place, item in zip(places, in_rows, strict=True):
            items[place] = item

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the tests of each board once no test is deselected any more."""
        self._items |= grouped((board, item) for item in session.items if (board := board_of(item)))


class Rounds(Boards):
    """Runs the tests of each board in alternating boots of two builds. Registered as a plugin."""

    def __init__(self, boots: BuildBooter, error_rate: float) -> None:
        super().__init__()
        self.boots = boots
        self._error_rate = error_rate
        self._tested: dict[str, ABTestState] = {}
        self._over: set[str] = set()
        self._now: ABTestState | None = None

    def tested(self, item: pytest.Item) -> ABTestState:
        return self._tested[item.nodeid]

    @property
    def all(self) -> Collection[ABTestState]:
        """The states of all tests, in the order of the tests."""
        return self._tested.values()

    def is_measuring(self, item: pytest.Item) -> bool:
        """Return whether the test runs in one of the boots. If not, its gate calls return the judged values."""
        return self._now is not None and self._now.item is item

    @property
    def calls(self) -> int:
        """How many gate calls share a boot of the current board, as far as this is known."""
        group = self._group(board_of(self._now.item)) if self._now is not None else []
        return sum(max(len(one.series), 1) for one in group)

    @property
    def values(self) -> int:
        """How many values the whole comparison has. A test that has not run yet counts as the test with the most."""
        known = [sum(max(series.values, 1) for series in one.series) for one in self._tested.values()]
        return sum(count or max(known, default=0) or 1 for count in known)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the tests of each board once no test is deselected any more."""
        super().pytest_collection_finish(session)
        drops: dict[str, LinkTurns] = {}
        for item in (item for items in self._items.values() for item in items):
            case = case_of(item)
            assert case is not None
            own = drops.setdefault(str(case.combination.dut), LinkTurns(self._error_rate))
            self._tested[item.nodeid] = ABTestState(item, own)

    def _group(self, board: str) -> list[ABTestState]:
        return [self.tested(item) for item in self._items.get(board, [])]

    # Outside of all other wrappers: Allure, capture and the like must see only the run of the test by pytest itself.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure the whole board before its first test."""
        board = board_of(item)
        if board in self._items and board not in self._over:
            self._over.add(board)
            self._measure(self._group(board), item)
        return (yield)

    def _measure(self, group: Sequence[ABTestState], first: pytest.Item) -> None:
        turn = 0
        while turn < self.boots.options.most_boots and (going := _not_done(group)):
            which = side(turn)
            self.boots.next(which)
            for number, one in enumerate(going):
                self._run(one, turn, partial(_following, going[number + 1 :], group, first))
            turn += 1
            if first.session.shouldstop or first.session.shouldfail:
                break
        for one in group:
            one.give_up()

    def _run(self, one: ABTestState, turn: int, following: Callable[[], pytest.Item]) -> None:
        """Run the test with its fixtures in this boot, without a report."""
        item, which = one.item, side(turn)
        one.begin(turn, which)
        self._now = one
        # As pytest's own runner does before and after a test.
        if hasattr(item, "_request") and not item._request:
            item._initrequest()  # type: ignore[attr-defined]
        try:
            error = _phase("setup", lambda: item.ihook.pytest_runtest_setup(item=item))
            if error is None:
                error = _phase("call", lambda: item.ihook.pytest_runtest_call(item=item))
            if error is not None:
                self._note(one, which, error)
            one.end_turn(which)
            after = following()
            error = _phase("teardown", lambda: _tear_down(item, after))
            if isinstance(error, PinetError) and one.error is None:
                self._note(one, which, error)
        finally:
            self._now = None
            if hasattr(item, "_request"):
                item._request = False
                item.funcargs = None  # type: ignore[attr-defined]

    def _note(self, one: ABTestState, which: Side, error: BaseException) -> None:
        if isinstance(error, AssertionError | pytest.fail.Exception | Inconclusive):
            # Verdicts and the test's own assertions count when pytest itself runs the test.
            return
        if which is Side.B and isinstance(error.__context__, TagsLostError):
            # The session skipped the test. But the known-good build has carried the tags.
            error = error.__context__
        if not isinstance(error, PinetError) or self.boots.has_failed(error):
            one.end(error)
            return
        opening = error is self.boots.opening_error
        one.add_trouble(which, error, opening, opening and self.boots.device_is_missing)


def _not_done(group: Iterable[ABTestState]) -> list[ABTestState]:
    return [one for one in group if not one.done]


def _following(rest: Sequence[ABTestState], group: Sequence[ABTestState], first: pytest.Item) -> pytest.Item:
    """Return the test to set up next: in this boot, in the next boot, or the test that pytest itself runs first."""
    going = rest or _not_done(group)
    return going[0].item if going else first


def _tear_down(item: pytest.Item, after: pytest.Item) -> None:
    item.ihook.pytest_runtest_teardown(item=item, nextitem=after)
    if after is item and item.parent is not None:
        # pytest does not tear down what the next test uses, and does not expect the same test to be the next.
        item.session._setupstate.teardown_exact(item.parent)  # type: ignore[arg-type]


def _phase(when: Any, run: Callable[[], object]) -> BaseException | None:
    call = pytest.CallInfo.from_call(run, when=when, reraise=(KeyboardInterrupt, pytest.exit.Exception))
    return call.excinfo.value if call.excinfo is not None else None
