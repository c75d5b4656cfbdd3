"""The suite of the emulated lab: how many instructions a kernel and a driver execute for a packet.

It uses only traffic that is repeatable in virtual time (docs/reference/emulated-lab.md): received TCP, and datagrams at
the highest rate of the board. Sent TCP is not repeatable: it waits for acknowledgements of a peer with another clock.
"""

import pytest

from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate

pytestmark = pytest.mark.pinet(board="virt", nic=["e1000e", "igb", "virtio", "usb-net"])


def test_receive(link: Link, gate: Gate) -> None:
    gate.tcp(link, direction="rx", duration="4 s")


def test_datagrams(link: Link, gate: Gate) -> None:
    gate.udp(link, direction="tx", bitrate="900M", length=1400, duration="4 s")
