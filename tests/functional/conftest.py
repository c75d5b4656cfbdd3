"""One virtual lab for all tests of the gate."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence

import pytest
from gate_bench import GateLab, NewProject, Project, lab_text

# Files whose tests measure, or compare times, on labs of their own or on none; so do those that use `gate_lab`,
MEASURING = [
    "contention",
    "crossing",
    "diagnosis",
    "gate_scale",
    "history_speed",
    "http",
    "iperf3_faults",
    "iperf3_measure",
    "iperf3_nodes",
    "measure_together",
    "observer",
    "observer_reload",
    "runner_as_peer",
    "slow_bucket",
    "suites",
    "timestamps_on_the_wire",
    "virtual_fairness",
    "virtual_switch",
    "virtual_uplink",
]
# but for these files, which send 100 Mbit/s at most and look at no figure that another process could spoil.
WAITING = [
    "allure_report",
    "calibrate",
    "discover",
    "doctor",
    "gate_console",
    "gate_history",
    "gate_interrupted",
    "gate_lab_faults",
    "gate_limits",
    "gate_power",
    "gate_terminal",
    "gate_traffic",
    "gate_trouble",
    "gate_tunings",
    "gate_workers",
    "lab_nodes",
    "lab_restore",
    "lab_selftest_ended",
    "virtual_boot",
]
# Files whose boards are in QEMU, beside those that begin with "emulated_".
EMULATED = ["deploy_emulated"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Those that measure run one after the other on a quiet machine, the others side by side."""
    for item in items:
        used: Sequence[str] = getattr(item, "fixturenames", ())
        name = item.path.stem.removeprefix("test_")
        if name in EMULATED or name.startswith("emulated_"):
            item.add_marker("emulated")
        elif name in MEASURING or ("gate_lab" in used and name not in WAITING):
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
    file.write_text(lab_text())
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
