"""S3: a 10G card on the single PCIe lane of a Compute Module 4: default settings, large payloads, and jumbo frames.

Overclocking had little effect in the source, because the card does most of the work.
"""

from __future__ import annotations

import pytest

from pytest_pinet.catalogue.published import least
from pytest_pinet.suites.duration import OneWay

pytestmark = pytest.mark.ten_gig
LARGE_PAYLOAD = {"kernel": "pci=pcie_bus_perf"}
JUMBO = {**LARGE_PAYLOAD, "mtu": 9000}
OVERCLOCKED = {**LARGE_PAYLOAD, "arm_freq": 2000, "over_voltage": 6}


@pytest.mark.pinet(board="cm4", nic="onboard", min=least("s3-onboard"))
class TestOnboard(OneWay):
    pass


@pytest.mark.pinet(board="cm4", nic="aqc107", min=least("s3-asus-stock"))
class TestAsItComes(OneWay):
    pass


@pytest.mark.pinet(board="cm4", nic="aqc107", tuning=LARGE_PAYLOAD, min=least("s3-asus-mps"))
class TestLargePayload(OneWay):
    pass


@pytest.mark.pinet(board="cm4", nic="aqc107", tuning=OVERCLOCKED, min=least("s3-asus-mps"))
class TestOverclocked(OneWay):
    pass


@pytest.mark.pinet(board="cm4", nic="aqc107", tuning=JUMBO, min=least("s3-asus-jumbo"))
class TestJumboFrames(OneWay):
    pass
