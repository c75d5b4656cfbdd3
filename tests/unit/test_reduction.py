"""The rate of a shaper, as ``tc`` counts it."""

from __future__ import annotations

import pytest

from pytest_pinet.lab.reduction import rate_for
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate


@pytest.mark.parametrize(
    ("mtu", "timestamps", "factor"),
    # catalogue/link_models.yaml has the first two; 9014 / 8948 is that of jumbo frames.
    [(1500, True, 1.04558), (1500, False, 1.03699), (9000, True, 1.00738)],
)
def test_the_ethernet_header_counts_and_nothing_else_of_the_wire(mtu: int, timestamps: bool, factor: float) -> None:
    rate = rate_for(Bitrate(1e9), Path(1000, "full", mtu, timestamps))
    assert rate.bps == pytest.approx(factor * 1e9, rel=1e-5)
