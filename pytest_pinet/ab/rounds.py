"""All tests of a board in every boot: whoever comes first has them measured, and each then reads what was found.

pytest knows one test after another, and a change takes reboots, which are dear: so the unit is a board in a boot, not a
test. Before the first test of a board begins, the bodies of all its collected tests run once in each boot, A B B A
B A A B, and every gate call in them measures a few connections. That goes on until each figure is certain, or the boots
are used up. Then every test runs a last time in its own turn, as pytest, its reports and ``-x`` expect it: its gate
calls give the judged figures, and no node is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import Any

import pytest

from pytest_pinet.ab.boards import Boards, CaseOf
from pytest_pinet.ab.boots import BuildBooter
from pytest_pinet.ab.measured_test import ABTestState
from pytest_pinet.errors import Inconclusive, PinetError
from pytest_pinet.judge.interleaved import Side, side


class Rounds(Boards):
    """Registered as a plugin where two builds are measured in turn."""

    def __init__(self, boots: BuildBooter, case_of: CaseOf, most_boots: int) -> None:
        super().__init__(case_of)
        self.boots = boots
        self._most_boots = most_boots
        self._tested: dict[str, ABTestState] = {}
        self._groups: dict[str, list[ABTestState]] = {}
        self._over: set[str] = set()
        self._now: ABTestState | None = None

    # -- what the session asks ------------------------------------------------------------------------------------

    def tested(self, item: pytest.Item) -> ABTestState:
        """All that is known of a test."""
        return self._tested[item.nodeid]

    @property
    def all(self) -> Collection[ABTestState]:
        """All tests, in their order."""
        return self._tested.values()

    def is_measuring(self, item: pytest.Item) -> bool:
        """Whether a test runs in one of the boots; False when it reads what was found."""
        return self._now is not None and self._now.item is item

    @property
    def calls(self) -> int:
        """How many measurements share a boot of the board that is measured now, as far as that is known."""
        group = self._groups[self.board(self._now.item)] if self._now is not None else []
        return sum(max(len(one.series), 1) for one in group)

    @property
    def figures(self) -> int:
        """How many figures the whole change has: of tests that were not run yet, as many as the richest one has."""
        known = [sum(max(len(series.found), 1) for series in one.series) for one in self._tested.values()]
        return sum(count or max(known, default=0) or 1 for count in known)

    # -- hooks ----------------------------------------------------------------------------------------------------

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Now it is known what is measured."""
        super().pytest_collection_finish(session)
        for board, items in self._items.items():
            self._groups[board] = [ABTestState(item) for item in items]
            self._tested |= {one.item.nodeid: one for one in self._groups[board]}

    # Before all other wrappers: Allure, capture and the like see only the last time that a test runs.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """The first test of a board has the whole board measured."""
        board = self.board(item)
        if board in self._groups and board not in self._over:
            self._over.add(board)
            self._measure(self._groups[board], item)
        return (yield)

    # -- measuring ------------------------------------------------------------------------------------------------

    def _measure(self, group: Sequence[ABTestState], first: pytest.Item) -> None:
        turn = 0
        while turn < self._most_boots and (going := _not_done(group)):
            which = side(turn)
            self.boots.next(which)
            for number, one in enumerate(going):
                self._run(one, which, partial(_following, going[number + 1 :], group, first))
            turn += 1
            if first.session.shouldstop or first.session.shouldfail:
                break
        for one in group:
            one.give_up()

    def _run(self, one: ABTestState, which: Side, following: Callable[[], pytest.Item]) -> None:
        """The body of a test, with its fixtures, in the boot of this turn; nobody is told of it."""
        item = one.item
        one.begin(which)
        self._now = one
        self.boots.device_is_missing = False
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
            # Verdicts, and what a test itself asserts of figures, count in its last run.
            return
        if not isinstance(error, PinetError) or self.boots.has_failed(error):
            one.error = error
            return
        opening = error is self.boots.opening_error
        one.trouble(which, error, opening, opening and self.boots.device_is_missing)


def _not_done(group: Iterable[ABTestState]) -> list[ABTestState]:
    return [one for one in group if not one.done]


def _following(rest: Sequence[ABTestState], group: Sequence[ABTestState], first: pytest.Item) -> pytest.Item:
    """What is set up next: the rest of this boot, or who goes on in the next one, or the test that began it all."""
    going = rest or _not_done(group)
    return going[0].item if going else first


def _tear_down(item: pytest.Item, after: pytest.Item) -> None:
    item.ihook.pytest_runtest_teardown(item=item, nextitem=after)
    if after is item and item.parent is not None:
        # pytest keeps set up what comes next, and never had the same test come next.
        item.session._setupstate.teardown_exact(item.parent)  # type: ignore[arg-type]


def _phase(when: Any, run: Callable[[], object]) -> BaseException | None:
    call = pytest.CallInfo.from_call(run, when=when, reraise=(KeyboardInterrupt, pytest.exit.Exception))
    return call.excinfo.value if call.excinfo is not None else None
