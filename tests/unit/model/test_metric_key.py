"""The key of a metric, and its text, which is stable across runs."""

from __future__ import annotations

import pytest

from pytest_pinet.model.metric_key import CombinationId, MetricKey, metric_keys
from pytest_pinet.model.traffic import Direction, Traffic

PAIR = CombinationId("pi4b", "onboard", "pair")
TX, RX, BIDIR = Direction.TX, Direction.RX, Direction.BIDIR


@pytest.mark.parametrize(
    ("traffic", "direction", "text", "both_ways"),
    [
        (TX, TX, "pi4b:onboard/pair/tcp-P1-tx", False),
        (RX, RX, "pi4b:onboard/pair/tcp-P1-rx", False),
        (BIDIR, BIDIR, "pi4b:onboard/pair/tcp-P1-bidir", True),
        (BIDIR, TX, "pi4b:onboard/pair/tcp-P1-bidir-tx", True),
        (BIDIR, RX, "pi4b:onboard/pair/tcp-P1-bidir-rx", True),
        # In topology `opposed` the second pair runs in the other direction.
        (TX, RX, "pi4b:onboard/pair/tcp-P1-tx", False),
    ],
)
def test_text(traffic: Direction, direction: Direction, text: str, both_ways: bool) -> None:
    key = MetricKey(PAIR, Traffic(traffic), direction)
    assert (str(key), key.both_ways) == (text, both_ways)


def test_each_direction_has_a_key() -> None:
    assert [str(key) for key in metric_keys(PAIR, Traffic(BIDIR)).values()] == [
        "pi4b:onboard/pair/tcp-P1-bidir-tx",
        "pi4b:onboard/pair/tcp-P1-bidir-rx",
    ]
    assert list(metric_keys(PAIR, Traffic(RX))) == [RX]


def test_a_tuning_is_part_of_the_combination() -> None:
    assert str(CombinationId("pi4b", "usb", "chain", "mtu=9000")) == "pi4b:usb/chain/mtu=9000"
