"""S1: two USB 3 adapters on a Pi 4 B at two clocks: each way, both ways at once, and with the peer capped.

Ten streams; RPS, XPS, the affinity of interrupts and the PCIe payload are tried as the source did, and what came of
each stands in the result. Its peer was a PC without TCP timestamps. Both ways run in two processes, as there.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from pytest_pinet.catalogue.published import least
from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate
from tests.gate.suites import method

pytestmark = pytest.mark.usb3_adapters
STREAMS = 10
SOURCE = {"duration": 65, "warmup": 5}
TUNED = {"kernel": "pci=pcie_bus_perf", "irq": 1, "rps": "all", "xps": "all", "timestamps": "off"}
OVERCLOCKED = {**TUNED, "arm_freq": 2000}


def limits(figures: str) -> dict[str, str]:
    """Of each way alone and of both at once, for the figures whose ids begin so."""
    named = {"tx": "oneway-tx", "rx": "oneway-rx", "bidir-tx": "bidir-tx", "bidir-rx": "bidir-rx"}
    return {way: least(f"{figures}-{name}") for way, name in named.items()}


class Adapter:
    """``figures``: how the ids of its published figures begin."""

    figures: ClassVar[str]

    @pytest.mark.parametrize("direction", ["tx", "rx"])
    def test_one_way(self, link: Link, gate: Gate, request: pytest.FixtureRequest, direction: str) -> None:
        gate.tcp(link, direction, streams=STREAMS, **method(request, **SOURCE))

    def test_both_ways(self, link: Link, gate: Gate, request: pytest.FixtureRequest) -> None:
        gate.tcp(link, "bidir", streams=STREAMS, opposed=True, **method(request, **SOURCE))

    def test_both_ways_with_the_peer_capped(self, link: Link, gate: Gate, request: pytest.FixtureRequest) -> None:
        capped = {f"bidir-{way}": least(f"{self.figures}-throt-{way}") for way in ("tx", "rx")}
        gate.tcp(link, "bidir", streams=STREAMS, peer_bitrate="40M", min=capped, **method(request, **SOURCE))


@pytest.mark.pinet(board="pi4b", nic="ax88179", tuning=TUNED, min=limits("s1-ax-1500"))
class TestAx88179(Adapter):
    figures = "s1-ax-1500"


@pytest.mark.pinet(board="pi4b", nic="rtl8153", tuning=TUNED, min=limits("s1-rtl-1500"))
class TestRtl8153(Adapter):
    figures = "s1-rtl-1500"


@pytest.mark.pinet(board="pi4b", nic="ax88179", tuning=OVERCLOCKED, min=limits("s1-ax-2000"))
class TestAx88179At2GHz(Adapter):
    figures = "s1-ax-2000"


@pytest.mark.pinet(board="pi4b", nic="rtl8153", tuning=OVERCLOCKED, min=limits("s1-rtl-2000"))
class TestRtl8153At2GHz(Adapter):
    figures = "s1-rtl-2000"
