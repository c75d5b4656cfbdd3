"""The values of an exact boot: equality to the last digit."""

from dataclasses import replace

import pytest

from pytest_pinet.model.exact import ExactBoot, ExactWindow, Function, first_difference
from pytest_pinet.model.traffic import Direction
from tests.support.exact_boots import IDENTITY

GEM_RX = Function("macb", "gem_rx")
RECEIVE = ExactWindow(
    "pktgen", Direction.RX, 60, 20_000, 3_775_000_000, 3_140_000, {GEM_RX: 3_020_000, Function("", "net_rx"): 120_000}
)
TCP = ExactWindow("tcp", Direction.TX, 8_000_000, 5500, 800_000_000)
BOOT = ExactBoot(IDENTITY, (RECEIVE, TCP))


def test_rates_are_those_of_virtual_time() -> None:
    assert round(RECEIVE.packets_per_second) == 5298
    assert round(RECEIVE.goodput_bps) == 2_543_046
    assert TCP.goodput_bps == 80e6
    assert [window.name for window in BOOT.windows] == ["pktgen-60-rx", "tcp-tx"]
    assert BOOT.window("tcp-tx") is TCP
    assert BOOT.window("tcp-rx") is None


def test_equal_boots_have_no_difference() -> None:
    assert first_difference(BOOT, replace(BOOT)) is None


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (
            ExactBoot(replace(IDENTITY, qemu="10.0.2"), BOOT.windows),
            "qemu was 7.2.22 in one boot and 10.0.2 in another boot of the same build",
        ),
        (
            ExactBoot(IDENTITY, (RECEIVE,)),
            "list of windows was pktgen-60-rx tcp-tx in one boot and pktgen-60-rx in another boot of the same build",
        ),
        (
            ExactBoot(IDENTITY, (RECEIVE, replace(TCP, virtual_ns=800_000_016))),
            "tcp-tx: virtual_ns was 800000000 in one boot and 800000016 in another boot of the same build",
        ),
        (
            ExactBoot(IDENTITY, (replace(RECEIVE, functions={**RECEIVE.functions, GEM_RX: 3_020_001}), TCP)),
            "pktgen-60-rx: instructions of gem_rx [macb] was 3020000 in one boot and 3020001 in another boot of the "
            "same build",
        ),
    ],
)
def test_the_first_value_that_differs_is_named(other: ExactBoot, text: str) -> None:
    assert str(first_difference(BOOT, other)) == text
