"""The rate of a shaper in the units of ``tc``."""

from __future__ import annotations

import pytest

from pytest_pinet.lab.link.rate_shaper import rate_for
from pytest_pinet.model.measurement import Path
from pytest_pinet.model.quantities import Bitrate


@pytest.mark.parametrize(
    ("mtu", "timestamps", "factor"),
    # The first two values are in catalogue/link_models.yaml; 9014 / 8948 is the one of jumbo frames.
    [(1500, True, 1.04558), (1500, False, 1.03699), (9000, True, 1.00738)],
)
def test_the_rate_includes_the_ethernet_header_only(mtu: int, timestamps: bool, factor: float) -> None:
    rate = rate_for(Bitrate(1e9), Path(1000, "full", mtu, timestamps))
    assert rate.bps == pytest.approx(factor * 1e9, rel=1e-5)
