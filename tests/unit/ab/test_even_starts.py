"""Both builds begin their traffic at the same age of the boot, and as cool, on a simulated board and clock."""

from __future__ import annotations

import random

import pytest

from benchmarks.verdicts.whole_runs.board import Kind
from benchmarks.verdicts.whole_runs.lab import SimulatedLab
from pytest_pinet.ab.even_starts import AGE_S, HOTTER_K, MOST_S, EvenStarts


def started(lab: SimulatedLab, starts: EvenStarts, after_s: float = 0.0, side: str = "A") -> tuple[list[str], float]:
    """Boot, and wait before the traffic. Return the sentences, and the age of the boot then."""
    lab.board.side = side
    lab.board.start_boot()
    lab.board.clock.passes(after_s)
    with lab.open(lab.combination) as link:
        found = starts.wait(link.dut)
    return found, lab.board.clock.now - lab.board.kernel_began


def test_a_turn_waits_until_its_boot_is_as_old_as_in_the_latest_start() -> None:
    lab, starts = SimulatedLab(Kind(lambda _: 1.0), random.Random(1)), EvenStarts()
    with lab.board.clock.running():
        _, old = started(lab, starts, after_s=30.0)
        notes, young = started(lab, starts)
    assert notes == []
    assert young == pytest.approx(old, abs=AGE_S + 1)


def test_a_turn_waits_until_the_board_is_as_cool_as_at_the_coolest_start() -> None:
    lab, starts = SimulatedLab(Kind(lambda _: 1.0, hot_boots=(5.0, 25.0)), random.Random(1)), EvenStarts()
    with lab.board.clock.running():
        for side in "AB":
            assert started(lab, starts, side=side)[0] == []
    assert starts.celsius[1] < starts.celsius[0] + HOTTER_K


def test_a_board_that_stays_hotter_is_named_and_later_turns_wait_no_more() -> None:
    lab, starts = SimulatedLab(Kind(lambda _: 1.0), random.Random(1)), EvenStarts()
    starts.celsius.append(20.0)
    with lab.board.clock.running():
        notes, old = started(lab, starts)
        assert old > MOST_S
        assert notes[0].endswith("at 45 C, others from 20 C: they did not become alike in 90 s")
        # Only the age of the boot still counts.
        starts.ages_s.clear()
        notes, young = started(lab, starts)
    assert (notes, young < MOST_S / 2) == ([], True)
