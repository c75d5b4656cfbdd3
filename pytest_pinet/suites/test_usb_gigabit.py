"""S0: onboard NICs, a USB gigabit adapter and a Wi-Fi adapter on boards whose only bus is USB 2; HTTP from them.

The limit is the published value minus 5 %. A more specific limit in the lab file takes precedence.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from pytest_pinet.catalogue.published import least, published
from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate
from pytest_pinet.suites.duration import OneWay, method

pytestmark = pytest.mark.usb_gigabit


@pytest.mark.pinet(board="pi3b", nic="onboard", min=least("s0-onboard-pi3"))
class TestOnboard100M(OneWay):
    pass


@pytest.mark.pinet(board="pi3b", nic="usb-802.11n", min=least("s0-wifi-pi3"))
class TestWifiAdapter(OneWay):
    pass


@pytest.mark.pinet(board="pi3b", nic="ax88179", min=least("s0-usbgig-pi3"))
class TestGigabitAdapter(OneWay):
    pass


@pytest.mark.pinet(board="pi3b+", nic="onboard", min=least("s0-onboard-pi3bp"))
class TestOnboardGigabitOnUsb2(OneWay):
    pass


@pytest.mark.pinet(board="pi4b", nic="onboard", min="900 Mbit/s")
class TestOnboardGigabit(OneWay):
    pass


class Http:
    """nginx serves a cached file. Its size is the source's goodput divided by its requests per second."""

    figure: ClassVar[str]

    def test_http(self, link: Link, gate: Gate, request: pytest.FixtureRequest) -> None:
        gate.http(
            link, "tx", size=published()[self.figure].file_bytes, min=least(self.figure), **method(request, duration=60)
        )


@pytest.mark.pinet(board="pi2b", nic="onboard")
class TestHttpOver100M(Http):
    figure = "s0-http-onboard"


@pytest.mark.pinet(board="pi2b", nic="ax88179")
class TestHttpOverGigabitAdapter(Http):
    figure = "s0-http-usbgig"
