"""S2: two disjoint pairs at once through the switch under test; all eight cells of window x segment x streams.

Each pair has its own goodput and retransmits; they are never summed. Segments of 8960 bytes need MTU 9000 on every hop.
On a path with a smaller MTU the result is invalid, and the test expects this. The source did not notice it.
"""

from __future__ import annotations

import pytest

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate
from pytest_pinet.suites.duration import method

pytestmark = pytest.mark.switch_under_test
JUMBO = pytest.mark.xfail(raises=InvalidMeasurement, reason="invalid: no segments of 8960 bytes on a path of MTU 1500")


@pytest.mark.parametrize("streams", [1, 5])
@pytest.mark.parametrize("mss", [1460, pytest.param(8960, marks=JUMBO)])
@pytest.mark.parametrize("window", ["64K", "200K"])
@pytest.mark.pinet(board="pi4b", nic="onboard", topology="pairs:2", min="91%")
def test_two_pairs(link: Link, gate: Gate, request: pytest.FixtureRequest, window: str, mss: int, streams: int) -> None:
    gate.tcp(link, window=window, mss=mss, streams=streams, **method(request, duration=60, warmup=0))
