"""One virtual lab for all tests of the gate."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence

import pytest
from gate_bench import LAB_FILE, GateLab, NewProject, Project

# Files whose tests measure, or compare times, on labs of their own or on none.
MEASURING = [
    "contention",
    "crossing",
    "gate_lease_faults",
    "gate_scale",
    "history_speed",
    "http",
    "iperf3_faults",
    "iperf3_measure",
    "iperf3_nodes",
    "measure_together",
    "observer",
    "observer_reload",
    "packaging",
    "runner_as_peer",
    "slow_bucket",
    "suites",
    "timestamps_on_the_wire",
    "virtual_fairness",
    "virtual_switch",
    "virtual_uplink",
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Those that measure run one after the other on a quiet machine, the others side by side."""
    for item in items:
        used: Sequence[str] = getattr(item, "fixturenames", ())
        if "gate_lab" in used or item.path.stem.removeprefix("test_") in MEASURING:
            item.add_marker("measures")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell lets its background jobs ignore SIGINT, and so would all that is started here to be interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def gate_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    """A copy of the default lab, up from the first test that needs it to the end of the session."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    file = tmp_path_factory.mktemp("gate-lab") / "virtual.yaml"
    # What a trial says on a machine that others use, too, is none of these tests' business.
    file.write_text(LAB_FILE.read_text().replace("scale: auto", "scale: 1"))
    lab = GateLab(file)
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory, gate_lab: GateLab) -> NewProject:
    """Make a folder with these test files."""

    def make(files: Mapping[str, str]) -> Project:
        project = Project(tmp_path_factory.mktemp("project"), gate_lab)
        for name, text in files.items():
            project.write(name, text)
        return project

    return make
