"""How far a window of an unchanged build may differ, by driver and window; on recorded boots of real boards."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import ExactLimits, judge_exact
from pytest_pinet.judge.exact_spread import ExactSpread, change_of_rhythm, tolerance_of
from pytest_pinet.model.traffic import Direction
from tests.support.exact_boots import IDENTITY, RECEIVE, boot, window
from tests.support.exact_records import recorded


@pytest.mark.parametrize(
    ("driver", "window", "share"),
    [
        ("virtio_net", "pktgen-60-rx", 0.01),
        ("macb", "pktgen-60-rx", 0.032),
        ("macb", "sender-60-rx", 0.032),
        ("macb", "tcp-rx", 0.124),
        ("e1000e", "pktgen-1514-rx", 0.08),
        # One by one, nothing was measured above the least tolerance.
        ("e1000e", "frame-1514-rx", 0.01),
        ("macb", "request-tx", 0.0135),
        ("macb", "bulk-tx", 0.01),
        # Drivers and windows that were not measured have the widest range that was.
        ("vmxnet3", "pktgen-1514-rx", 0.08),
        ("macb", "pktgen-512-rx", 0.124),
    ],
)
def test_a_tolerance_has_room_above_the_measured_range(driver: str, window: str, share: float) -> None:
    assert tolerance_of(driver, window).instructions == pytest.approx(share, abs=0.0015)


def test_another_rhythm_has_more_room() -> None:
    assert tolerance_of("macb", "pktgen-60-rx", same_rhythm=False) == ExactSpread(0.195, 0.18)
    assert tolerance_of("igb", "tcp-rx", same_rhythm=False).goodput == pytest.approx(0.526, abs=0.001)


def test_two_processors_have_more_room() -> None:
    assert tolerance_of("e1000e", "pktgen-60-tx", processors=2) == tolerance_of("e1000e", "pktgen-60-tx")
    assert tolerance_of("e1000e", "pktgen-60-rx", processors=2) == ExactSpread(0.05, 0.081)
    assert tolerance_of("e1000e", "pktgen-1514-tx", processors=2) == tolerance_of("e1000e", "pktgen-1514-tx")
    assert tolerance_of("e1000e", "pktgen-1514-rx", same_rhythm=False, processors=2) == ExactSpread(0.373, 0.295)


def test_the_processors_of_a_board_decide_its_tolerance() -> None:
    a, b = (window({**RECEIVE, "net_rx": count}, "pktgen", Direction.TX) for count in (0.0, 300.0))
    for processors, result in ((1, Relation.SLOWER), (2, Relation.SAME)):
        identity = replace(IDENTITY, processors=processors)
        (found,) = judge_exact(boot(a, identity=identity), boot(b, identity=identity), ExactLimits()).windows
        assert found.result is result


@pytest.mark.parametrize(("interrupts", "change"), [(55.3, None), (48.0, None), (28.6, -0.483), (80.0, 0.447)])
def test_interrupts_for_each_packet_tell_the_rhythm(interrupts: float, change: float | None) -> None:
    a, b = (window({**RECEIVE, "gic_handle_irq": count}, "pktgen") for count in (55.3, interrupts))
    assert change_of_rhythm(a, b) == (None if change is None else pytest.approx(change, abs=0.001))
    assert change_of_rhythm(window(RECEIVE, "pktgen"), b) is None


def test_a_window_in_another_rhythm_says_so_and_is_no_regression() -> None:
    # Measured on macb: the same kernel, 10,927 and 9,864 instructions for each packet.
    slow, fast = ({**RECEIVE, "gic_handle_irq": count, "net_rx": rest} for count, rest in ((55.3, 6000), (28.6, 4900)))
    found = judge_exact(
        boot(window(fast, "pktgen", rate=6374)), boot(window(slow, "pktgen", rate=5757)), ExactLimits()
    ).windows[0]
    assert found.result is Relation.SAME
    assert found.why.endswith("goodput -9.68 %; another rhythm, +93 % interrupts per packet")


REBUILT = (["e1000e-6.1", "e1000e-6.1-word", "e1000e-6.1-rebuilt"], ["macb-6.1", "macb-6.1-rebuilt"])


@pytest.mark.parametrize(("a", "b"), [pair for builds in REBUILT for pair in permutations(builds, 2)])
def test_a_driver_that_was_only_built_again_is_not_slower(a: str, b: str) -> None:
    found = judge_exact(recorded(a), recorded(b), ExactLimits())
    assert [one.why for one in found.windows if one.result is Relation.SLOWER] == []


def in_driver(a: str, b: str) -> dict[str, set[str]]:
    """Return the changes of each function of the driver, in all windows of single frames."""
    found: dict[str, set[str]] = {}
    driver = recorded(a).identity.driver
    for one in judge_exact(recorded(a), recorded(b), ExactLimits()).windows:
        for function in one.functions if one.a.one_by_one else ():
            if function.function.module == driver:
                found.setdefault(function.function.name, set()).add(f"{function.change:+.2f}")
    return found


def test_another_word_on_the_command_line_changes_no_function_of_the_driver_by_one_instruction() -> None:
    assert in_driver("e1000e-6.1", "e1000e-6.1-word") == {}


def test_another_compilation_of_the_driver_is_found_to_the_digit() -> None:
    # Debian's build of the same source has two instructions more.
    assert in_driver("e1000e-6.1", "e1000e-6.1-rebuilt") == {
        "e1000_xmit_frame": {"-2.00"},
        "e1000e_poll": {"-1.00", "-2.00"},
    }


def test_a_driver_without_one_check_differs_in_one_function() -> None:
    assert in_driver("macb-6.1-rebuilt", "macb-6.1-rx-pending") == {"macb_rx_poll": {"-17.00"}}
