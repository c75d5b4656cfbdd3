"""S1: two USB 3 adapters on a Pi 4 B at two clocks: each direction, both at once, and both with a capped peer.

Ten streams. RPS, XPS, interrupt affinity and PCIe payload are set as in the source; the result has the outcome of each
setting. The source's peer was a PC without TCP timestamps. Two processes send in both directions, as in the source.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from pytest_pinet.catalogue.published import least
from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate
from pytest_pinet.suites.duration import method

pytestmark = pytest.mark.usb3_adapters
STREAMS = 10
SOURCE = {"duration": 65, "warmup": 5}
TUNED = {"kernel": "pci=pcie_bus_perf", "irq": 1, "rps": "all", "xps": "all", "timestamps": "off"}
# A Pi 4 B runs at 2 GHz only with a higher voltage.
OVERCLOCKED = {**TUNED, "arm_freq": 2000, "over_voltage": 6}


def limits(figures: str) -> dict[str, str]:
    """Return the limits of published values whose ids begin like this: each direction alone, and both at once."""
    named = {"tx": "oneway-tx", "rx": "oneway-rx", "bidir-tx": "bidir-tx", "bidir-rx": "bidir-rx"}
    return {way: least(f"{figures}-{name}") for way, name in named.items()}


class Adapter:
    """``figures`` is the beginning of the ids of its published values."""

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
