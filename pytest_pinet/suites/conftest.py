"""The markers of the suites, most of them for published systems, and the selection of parts by levels."""

import pytest

MARKERS = (
    "usb_gigabit: boards and NICs on USB 2, and a web server (S0)",
    "usb3_adapters: two USB 3 adapters on a Pi 4 B: each way, both ways, peer capped, at two clocks (S1)",
    "switch_under_test: two pairs at once through one switch: window x segment x streams (S2)",
    "ten_gig: a 10G card on a Compute Module 4: PCIe payload, jumbo frames, overclock (S3)",
    "cluster: six nodes on a 100M switch: disjoint pairs and incast (S4)",
    "further_figures: other public values of boards and NICs (P)",
    "everyday(level): a part of the suite everyday, which runs from this profile on",
)
# In rising order. A level runs the parts of the levels before it, too. Profile ``full`` takes longer for each part.
LEVELS = ("fast", "standard", "soak", "full")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, also for a project with ``--strict-markers``."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the parts of the suite ``everyday`` above the profile. A test that the command line names runs."""
    session = config.pluginmanager.get_plugin("pinet-session")
    if session is None or any("::" in word for word in config.args):
        return
    marked = [(item, marker.args[0]) for item in items if (marker := item.get_closest_marker("everyday")) is not None]
    above = [item for item, level in marked if LEVELS.index(level) > LEVELS.index(session.profile(item).name)]
    if above:
        items[:] = [item for item in items if item not in above]
        config.hook.pytest_deselected(items=above)
