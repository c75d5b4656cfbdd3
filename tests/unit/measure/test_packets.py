"""What limits small packets, by the counters of both ends, and when the value is that of the device under test."""

from __future__ import annotations

import pytest

from pytest_pinet.measure.packets import Counts, Packets
from pytest_pinet.model.traffic import Direction

WIRE = 148_810.0


def sender(sent: float, busiest: float = 0.5) -> Counts:
    return Counts(sent, 0.0, 0.0, 0.0, busiest)


def receiver(received: float, dropped: float = 0.0, unread: float = 0.0) -> Counts:
    return Counts(0.0, received, dropped, unread, 1.0)


CASES = [
    (sender(148e3, 1.0), receiver(147e3), "wire", "the wire limits: it carries 148810 packets of this size"),
    (sender(100e3, 1.0), receiver(90e3), "receiver", "the receiving NIC or driver limits: 10.0 % of the packets did"),
    (sender(100e3), receiver(100e3, dropped=5e3), "receiver", "the receiving NIC or driver limits: 0.0 %"),
    (sender(100e3, 0.97), receiver(100e3, unread=40e3), "sender", "the sender limits: one of its CPUs was busy 97 %"),
    (sender(100e3), receiver(100e3, unread=40e3), "program", "the receiving program limits: it did not read 40.0 % of"),
    (sender(100e3), receiver(99e3), "", "perhaps the sender limits: all packets arrived, and none of its CPUs"),
    (sender(0.0), receiver(0.0), "", "perhaps the sender limits"),
]


@pytest.mark.parametrize(("sent", "received", "limit", "text"), CASES)
def test_what_limits_is_named(sent: Counts, received: Counts, limit: str, text: str) -> None:
    found = Packets().limited_by(sent, received, WIRE)
    assert found[0] == limit
    assert found[1].startswith(text)


@pytest.mark.parametrize("limit", ["wire", "receiver", "sender", "program", ""])
def test_a_board_that_receives_all_that_its_peer_sends_is_not_measured(limit: str) -> None:
    assert Packets(Direction.TX).is_own(limit)
    assert Packets(Direction.RX).is_own(limit) == (limit in ("wire", "receiver"))
