"""The emulated lab's suite: how many instructions a packet takes on its way through a kernel and a driver.

Only traffic that repeats in virtual time (docs/emulated.md): received TCP, and datagrams as fast as the board can send
them. What TCP sends waits for acknowledgements of a peer that lives in another time.
"""

import pytest

from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate

pytestmark = pytest.mark.pinet(board="virt", nic=["e1000e", "igb", "virtio", "usb-net"])


def test_receive(link: Link, gate: Gate) -> None:
    gate.tcp(link, direction="rx", duration="4 s")


def test_datagrams(link: Link, gate: Gate) -> None:
    gate.udp(link, direction="tx", bitrate="900M", length=1400, duration="4 s")
