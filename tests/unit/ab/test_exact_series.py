"""How often both builds boot until the answer is certain. The boots are values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pytest

from pytest_pinet.ab.exact_series import ExactSeries
from pytest_pinet.errors import BuildError, InvalidMeasurement, LabError
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import ExactLimits
from pytest_pinet.judge.turns import Side
from pytest_pinet.model.exact import ExactBoot, MadeExactBoot, parse_instructions
from pytest_pinet.session.exact_gate import PlannedExactBoot
from tests.support.exact_boots import RECEIVE, boot, window, with_module
from tests.support.module_objects import variant

DEFAULT = ExactLimits()
SLOW = [100.0] * 5


def booted(more: float, driver: float = 0.0) -> ExactBoot:
    """Return a boot that received more slowly at full load, and in the driver also where frames come one by one."""
    full = window({**RECEIVE, "skb_release_data": RECEIVE["skb_release_data"] + more}, "pktgen")
    single = window({**RECEIVE, "gem_rx [macb]": 151.0 + driver})
    return boot(single, full, identity=with_module("macb", f"{driver}"))


class Boards:
    """Boots of both builds by the number of their meaningless change. ``known`` were made in an earlier run."""

    def __init__(
        self, a: Sequence[float], b: Sequence[float], known: Collection[tuple[int, Side]] = (), driver: float = 0.0
    ) -> None:
        self._more = {Side.A: a, Side.B: b}
        self._driver = {Side.A: 0.0, Side.B: driver}
        self.known = {*known}
        self.made: list[tuple[int, Side]] = []
        self.said: list[str] = []
        self.breaks: dict[tuple[int, Side], Exception] = {}
        self.before: Callable[[tuple[int, Side]], object] = str
        self.modules: dict[Side, dict[str, bytes]] = {}
        self.image = ""

    def series(self) -> ExactSeries:
        a, b = (self._planned(side) for side in Side)
        return ExactSeries("macb", a, b, "the stock kernel", self.said.append)

    def _planned(self, side: Side) -> PlannedExactBoot:
        def make(number: int) -> MadeExactBoot:
            turn = number, side
            is_known = turn in self.known
            self.before(turn)
            if not is_known:
                self.made.append(turn)
                self.known.add(turn)
            if turn in self.breaks:
                raise self.breaks[turn]
            made = booted(self._more[side][number], self._driver[side])
            if side is Side.B and self.image:
                made = replace(made, identity=replace(made.identity, image=self.image))
            return MadeExactBoot(made, 8.0, cached=is_known)

        boots = lambda number: int((number, side) not in self.known)  # noqa: E731
        return PlannedExactBoot(boots, make, self.modules.get(side, {}))


def test_a_change_below_the_limits_needs_one_boot_of_each() -> None:
    boards = Boards([0], [40])
    assert {one.result for one in boards.series().judge(DEFAULT).windows} == {Relation.SAME}
    assert (boards.made, boards.said) == ([(0, Side.A), (0, Side.B)], [])


def test_boots_end_as_soon_as_the_answer_is_certain() -> None:
    boards = Boards([0, 10, 0, 0, 0], [100, 30, 100, 100, 100])
    assert {one.result for one in boards.series().judge(DEFAULT).windows} == {Relation.SAME}
    assert sorted(boards.made) == [(number, side) for number in (0, 1) for side in Side]
    assert boards.said == ["macb: pktgen-60-rx beyond the limit; up to 8 more boots decide"]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_change_of_the_build_needs_five_boots_of_each(sign: int) -> None:
    boards = Boards([0] * 5, [sign * more for more in SLOW])
    series = boards.series()
    single, full = series.judge(DEFAULT).windows
    assert single.result is Relation.SAME
    assert full.result is (Relation.SLOWER if sign > 0 else Relation.FASTER)
    assert [*series.boots] == sorted(boards.made) == [(number, side) for number in range(5) for side in Side]
    # The next test with these limits boots nothing.
    assert series.judge(DEFAULT).windows == (single, full)
    assert len(boards.made) == 10


def test_a_second_gate_against_the_same_build_boots_only_the_new_one() -> None:
    boards = Boards([0] * 5, SLOW, known=[(number, Side.A) for number in range(5)])
    assert boards.series().judge(DEFAULT).windows[1].result is Relation.SLOWER
    assert sorted(boards.made) == [(number, Side.B) for number in range(5)]
    assert boards.said == ["macb: pktgen-60-rx beyond the limit; up to 4 more boots decide"]


def test_what_is_known_may_make_the_answer_certain_without_a_boot() -> None:
    boards = Boards([0, 0, 0, 80, 0], [100], known=[(number, Side.A) for number in range(5)])
    assert boards.series().judge(DEFAULT).windows[1].result is Relation.SAME
    assert (boards.made, boards.said) == ([(0, Side.B)], [])


@pytest.mark.parametrize(("b", "same"), [("padding", True), ("instructions", False)])
def test_it_is_known_which_functions_have_other_code(b: str, same: bool) -> None:
    boards = Boards([0], [0], driver=4)
    boards.modules = {Side.A: {"macb": variant("plain")}, Side.B: {"macb": variant(b)}}
    (function,) = boards.series().judge(DEFAULT).windows[0].functions
    assert (str(function.function), function.same_code) == ("gem_rx [macb]", same)


@pytest.mark.parametrize(("b", "same"), [("padding", True), ("instructions", False)])
def test_a_changed_image_hides_nothing_of_a_changed_module(b: str, same: bool) -> None:
    boards = Boards([0], [40], driver=4)
    boards.image = "another"
    boards.modules = {Side.A: {"macb": variant("plain")}, Side.B: {"macb": variant(b)}}
    single, full = boards.series().judge(DEFAULT).windows
    (function,) = single.functions
    assert (str(function.function), function.same_code) == ("gem_rx [macb]", same)
    # The code of the image itself is not compared.
    (function,) = full.functions
    assert (str(function.function), function.same_code) == ("skb_release_data", False)


@pytest.mark.parametrize("modules", [{}, {"macb": b"no module"}])
def test_without_modules_it_is_not_known_which_functions_have_other_code(modules: dict[str, bytes]) -> None:
    boards = Boards([0], [0], driver=4)
    boards.modules = {Side.A: {"macb": variant("plain")}, Side.B: modules}
    (function,) = boards.series().judge(DEFAULT).windows[0].functions
    assert not function.same_code


def test_a_function_of_the_driver_needs_one_boot_of_each() -> None:
    limits = ExactLimits(tuple(parse_instructions({"gem_rx": "0"}, "the marker")))
    boards = Boards([0], [0], driver=4)
    found = boards.series().judge(limits).windows[0]
    assert found.result is Relation.SLOWER
    assert found.why.startswith("gem_rx [macb] 151.00 -> 155.00")
    assert len(boards.made) == 2


def test_another_limit_may_need_more_boots() -> None:
    boards = Boards([0] * 5, [40] * 5)
    series = boards.series()
    assert series.judge(DEFAULT).windows[1].result is Relation.SAME
    assert len(boards.made) == 2
    strict = ExactLimits(tuple(parse_instructions("10", "the marker")))
    assert series.judge(strict).windows[1].result is Relation.SLOWER
    assert len(boards.made) == 10


def test_a_build_that_breaks_with_a_meaningless_change_is_a_finding() -> None:
    boards = Boards([0] * 5, SLOW)
    boards.breaks[2, Side.B] = BuildError("kernel 6.1 on the exact board macb panicked: at a strange place", "panic")
    series = boards.series()
    for _ in range(2):
        with pytest.raises(BuildError, match="panicked: at a strange place"):
            series.judge(DEFAULT)
    assert boards.made.count((2, Side.B)) == 1


def test_a_known_good_build_that_breaks_is_a_problem_of_the_lab() -> None:
    boards = Boards([0] * 5, SLOW)
    boards.breaks[3, Side.A] = BuildError("kernel 6.1 on the exact board macb panicked", "panic")
    with pytest.raises(LabError, match=r"^the known-good build the stock kernel: kernel 6.1 on the exact board macb p"):
        boards.series().judge(DEFAULT)


def test_a_boot_that_breaks_both_builds_blames_the_known_good_build_each_time() -> None:
    boards = Boards([0] * 5, SLOW)
    for side in Side:
        boards.breaks[1, side] = BuildError("kernel 6.1 on the exact board macb panicked", "panic")
    # The build under test ends first.
    ended = threading.Event()
    boards.before = lambda turn: ended.set() if turn == (1, Side.B) else turn != (1, Side.A) or ended.wait(20)
    series = boards.series()
    for _ in range(2):
        with pytest.raises(LabError, match=r"^the known-good build the stock kernel: kernel 6.1 on the exact board"):
            series.judge(DEFAULT)


def test_a_problem_of_the_machine_may_pass() -> None:
    boards = Boards([0], [0])
    boards.breaks[0, Side.B] = LabError("QEMU got no processor time")
    series = boards.series()
    with pytest.raises(LabError, match="no processor time"):
        series.judge(DEFAULT)
    boards.breaks.clear()
    assert series.judge(DEFAULT).windows[0].result is Relation.SAME
    # What was made before the problem is kept.
    assert boards.made.count((0, Side.A)) == 1


def test_boots_of_two_boards_are_not_compared() -> None:
    boards = Boards([0], [0])
    series = boards.series()
    plan = PlannedExactBoot(lambda _: 1, lambda _: MadeExactBoot(boot(), 8.0))
    other = PlannedExactBoot(lambda _: 1, lambda _: MadeExactBoot(ExactBoot(booted(0).identity, ()), 8.0))
    with pytest.raises(InvalidMeasurement, match="macb: the boots cannot be compared: frame-60-rx was measured with A"):
        ExactSeries("macb", plan, other, "the stock kernel", print).judge(DEFAULT)
    assert series.identity is None
