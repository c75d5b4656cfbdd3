"""P: further published one-way values of boards and NICs, without known settings."""

from __future__ import annotations

import pytest

from pytest_pinet.catalogue.published import least
from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate
from pytest_pinet.suites.duration import method

pytestmark = pytest.mark.further_figures


class OneWay:
    def test_one_way(self, link: Link, gate: Gate, request: pytest.FixtureRequest) -> None:
        gate.tcp(link, "tx", **method(request, duration=60, warmup=5))


@pytest.mark.pinet(board=["pi5", "cm4", "cm5", "pi4b"], nic="onboard", min=least("p-pi5-macb-1"))
class TestOnboardGigabit(OneWay):
    pass


@pytest.mark.pinet(board="cm0", nic="onboard", min=least("p-cm0-usb-100m-16"))
class TestOnboard100M(OneWay):
    pass


@pytest.mark.pinet(board="cm4", nic="rtl8125", min=least("p-cm4-rtl8125-11"))
class TestCm4With2500M(OneWay):
    pass


@pytest.mark.pinet(board="pi5", nic="aqc107", min=least("p-pi5-aqc107-14"))
class TestPi5With10G(OneWay):
    pass


@pytest.mark.pinet(board="pi5", nic="aqc113", min=least("p-pi5-aqc113-13"))
class TestPi5WithAnother10G(OneWay):
    pass


@pytest.mark.pinet(board="pi5", nic="rtl8126", min=least("p-pi5-rtl8126-15"))
class TestPi5With5G(OneWay):
    pass
