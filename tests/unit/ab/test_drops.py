"""Drops of a link in alternating turns: which of them count, and when they are the fault of the build under test."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.ab.rounds import LinkTurns
from pytest_pinet.execution.shell import Completed
from pytest_pinet.judge.shares import Events, judge_turns
from pytest_pinet.judge.turns import Side, side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.model.verdict import Verdict
from tests.support import link_stand_in
from tests.support.local_shell import LocalShell


class CountedShell(LocalShell):
    """A node whose device has changed its carrier so often; None if its driver does not count."""

    changes: int | None = 1

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return Completed(0, "" if self.changes is None else f"{self.changes}\n", "")


class Lab:
    """A link whose ends count carrier changes, and its turns."""

    def __init__(self, folder: Path) -> None:
        self.dut, self.peer = CountedShell("one"), CountedShell("two")
        self.link: Link = link_stand_in.link(folder, shells=(self.dut, self.peer))
        self.turns = LinkTurns(0.01)

    def turn(self, number: int, *drops: CountedShell) -> None:
        """Open the link, drop these ends twice, and look."""
        self.turns.begin(number, side(number))
        self.turns.accept(self.link)
        for one in drops:
            one.changes = (one.changes or 0) + 2
        self.turns.look(self.link)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_drops_between_connections_of_build_b_alone_are_its_fault(lab: Lab) -> None:
    for number in range(8):
        assert lab.turns.error is None
        lab.turn(number, *([lab.dut] if side(number) is Side.B else []))
    assert lab.turns.verdict is Verdict.FAIL
    assert str(lab.turns.error) == (
        "the link dropped in 4 of 4 turns of the build under test, and in 0 of 4 of the known-good build"
    )


def test_a_drop_of_other_links_too_is_the_switch(lab: Lab) -> None:
    for number in range(8):
        lab.turn(number, *([lab.dut, lab.peer] if side(number) is Side.B else []))
    assert (lab.turns.verdict, lab.turns.text) == (Verdict.PASS, "")


def test_changes_that_a_tuning_or_a_replug_makes_are_no_drops(lab: Lab) -> None:
    lab.turns.begin(0, Side.A)
    lab.turns.accept(lab.link)
    lab.link.add_tunings([Tuned("one:onboard", "rings", "512", "256", "512", SettingOutcome.APPLIED)])
    lab.dut.changes = 3
    lab.turns.look(lab.link)
    assert lab.turns.text == ""
    lab.dut.changes = 7
    lab.turns.accept(lab.link)
    lab.turns.look(lab.link)
    assert lab.turns.text == ""


def test_a_driver_that_does_not_count_changes_has_no_drops_between_connections(lab: Lab) -> None:
    lab.dut.changes = None
    lab.turn(0)
    assert lab.turns.text == ""


def test_all_tests_of_a_link_share_the_turns(lab: Lab) -> None:
    lab.turn(0)
    lab.turn(0, lab.dut)
    lab.turn(0)
    assert lab.turns.text == (
        "the link dropped in 0 of 0 turns of the build under test, and in 1 of 1 of the known-good build"
    )


def test_a_few_drops_of_b_ask_for_more_turns_until_chance_explains_them_or_not() -> None:
    def verdict(of_b: tuple[int, int], of_a: tuple[int, int]) -> Verdict | None:
        return judge_turns(Events(*of_b), Events(*of_a), 0.01)

    assert verdict((4, 1), (4, 0)) is Verdict.PASS
    assert verdict((4, 3), (4, 0)) is None
    assert verdict((6, 5), (6, 0)) is Verdict.FAIL
    assert verdict((8, 4), (8, 3)) is Verdict.PASS


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.75, 0.95])
def test_two_equal_builds_are_told_apart_in_at_most_one_comparison_of_a_hundred(share: float) -> None:
    going, failed = {(0, 0): 1.0}, 0.0
    for number in range(16):
        after: dict[tuple[int, int], float] = {}
        for (a, b), weight in going.items():
            for bad, chance in ((1, share), (0, 1 - share)):
                now = (a + bad, b) if side(number) is Side.A else (a, b + bad)
                after[now] = after.get(now, 0.0) + weight * chance
        of_a = sum(side(one) is Side.A for one in range(number + 1))
        going = {}
        for (a, b), weight in after.items():
            verdict = judge_turns(Events(number + 1 - of_a, b), Events(of_a, a), 0.01)
            failed += weight if verdict is Verdict.FAIL else 0.0
            if verdict is None or (number < 6 and verdict is Verdict.PASS):
                going[a, b] = weight
    assert failed <= 0.01
