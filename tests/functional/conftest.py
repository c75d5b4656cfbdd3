"""One virtual lab for all tests of the gate."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping

import pytest
from gate_bench import LAB_FILE, GateLab, NewProject, Project


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
    file.write_text(LAB_FILE.read_text())
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
