"""The default gate: the onboard NIC of every board, and the USB 3 adapters of a Pi 4, one direction at a time.

The limits are in the marker. A more specific limit in the lab file takes precedence.
"""

import pytest

from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate

EACH_WAY = pytest.mark.parametrize("direction", ["tx", "rx"])


@EACH_WAY
@pytest.mark.pinet(nic="onboard", min="94%")
def test_onboard(link: Link, gate: Gate, direction: str) -> None:
    gate.tcp(link, direction=direction)


@EACH_WAY
@pytest.mark.pinet(board="pi4b", nic=["ax88179", "rtl8153"])
def test_usb3_adapter(link: Link, gate: Gate, direction: str) -> None:
    gate.tcp(link, direction=direction)
