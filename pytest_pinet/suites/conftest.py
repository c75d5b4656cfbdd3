"""The markers of the suites, each for one published system (``pytest_pinet/catalogue/published.yaml``)."""

import pytest

MARKERS = (
    "usb_gigabit: boards and NICs on USB 2, and a web server (S0)",
    "usb3_adapters: two USB 3 adapters on a Pi 4 B: each way, both ways, peer capped, at two clocks (S1)",
    "switch_under_test: two pairs at once through one switch: window x segment x streams (S2)",
    "ten_gig: a 10G card on a Compute Module 4: PCIe payload, jumbo frames, overclock (S3)",
    "cluster: six nodes on a 100M switch: disjoint pairs and incast (S4)",
    "further_figures: other public values of boards and NICs (P)",
)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, also for a project with ``--strict-markers``."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
