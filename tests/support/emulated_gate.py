"""Runs gates on emulated boards as a user does, in a separate lab, and reads the outcome of each test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.emulated.image import COMMANDS
from pytest_pinet.errors import LabError
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.launcher import launcher_of
from pytest_pinet.virtual.requirements import packages_of
from tests.support.gate_project import GateLab, Project
from tests.support.waiting import wait_until

LAB = Path(__file__).parents[2] / "lab"
NEEDS = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in packages_of(COMMANDS)), reason="QEMU or its tools are missing"
    ),
]
# Board time does not depend on other measurements on this machine, so no gate needs to wait for its turn.
_DOMAIN = '    host: "*"\n'
# Each test uses one direction. Received TCP and datagrams repeat well; sent TCP shows only obvious changes.
TESTS = """
import pytest

pytestmark = pytest.mark.pinet(board="virt", nic="e1000e")

def test_rx(link, gate):
    gate.tcp(link, direction="rx", duration="2 s")

def test_tx(link, gate):
    gate.tcp(link, direction="tx", streams=4, duration="2 s")

def test_udp(link, gate):
    gate.udp(link, direction="tx", bitrate="900M", length=1400, duration="1 s")
"""
GATE_TIMEOUT_S = 1200.0
# The nodes of the gate, the board under test first.
NODES = ("virt-1", "peer")
BOOT_S = 240.0


def patient(text: str) -> str:
    """Return a lab file with four times the boot timeout, because the machine may be busy."""
    return re.sub(r"(boot_timeout: )(\d+) s", lambda found: f"{found[1]}{4 * int(found[2])} s", text)


def gate_text() -> str:
    """Return the emulated lab's file for gates: patient, and without turns between tests that run side by side."""
    text = patient((LAB / "emulated.yaml").read_text())
    assert _DOMAIN in text
    return text.replace(_DOMAIN, f'    gate-{os.getpid()}: "*"\n')


class EmulatedGate:
    """A user's project that gates builds on the emulated lab. ``came`` is the outcome of each test in the last gate."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.code = -1
        self.text = ""

    def run(self, build: str, *words: str) -> int:
        """Run ``pinet gate`` and return its exit code. ``build`` is a file of the project, or the content of one.

        Without a test file among ``words``, all tests of the project run.
        """
        tests = () if any(word.endswith(".py") for word in words) else (".",)
        if "\n" in build:
            self.project.write("build.yaml", build)
            build = "build.yaml"
        lab = f"--lab={self.project.lab.file}"
        done = self.project.pinet("gate", build, lab, *words, *tests, timeout_s=GATE_TIMEOUT_S)
        self.code, self.text = done.returncode, done.stdout + done.stderr
        return self.code

    def switch(self, on: bool) -> None:
        """Switch the board and its peer on, for a gate that boots nothing, or off."""
        self.project.lab.switch_power(on, *NODES)
        if on:
            for node in NODES:
                wait_until(f"the boot of {node}", partial(self.project.lab.answers, node), BOOT_S)

    @property
    def head(self) -> dict[str, Any]:
        found: dict[str, Any] = self.project.results["change"]
        return found

    @property
    def came(self) -> Mapping[str, str]:
        """Return the verdict on ``rx``, ``tx`` and ``udp``: ``fail``, ``pass`` and so on.

        ``text`` has the errors.
        """
        tests = {result["id"]: result["test"].partition("::test_")[2].partition("[")[0] for result in self._results}
        return {tests[entry["id"]]: entry["verdict"] for entry in self.head["entries"] if entry["id"] in tests}

    @property
    def changes(self) -> Mapping[str, float]:
        """Return B over A minus one for each test."""
        return {
            result["test"].partition("::test_")[2].partition("[")[0]: one["change"]
            for result in self._results
            for one in result["change"]["directions"].values()
        }

    @property
    def _results(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.project.results["results"]
        return [result for result in found if "change" in result]


@contextmanager
def card_or_skip() -> Iterator[None]:
    """Skip the test if the card of emulated boards cannot be made because Debian's packages are not available."""
    try:
        yield
    except LabError as error:
        if "apt" in str(error):
            pytest.skip(f"no card can be made here: {error}")
        raise


@contextmanager
def emulated_session(folder: Path, edit: Callable[[str], str] = lambda text: text) -> Iterator[LabAccess]:
    """Yield a session on the emulated lab, whose file ``edit`` may change, in a separate lab."""
    file = folder / "emulated.yaml"
    file.write_text(edit(patient((LAB / "emulated.yaml").read_text())))
    found = labfile.load(str(file))
    launcher = launcher_of(found)
    assert launcher is not None
    with card_or_skip():
        use = launcher.use(found, str(os.getpid()), lambda: None)
    before = dict(os.environ)
    os.environ.update(use.environment)
    session = LabAccess(found, Identity.of_this_process(folder.name), 60.0, lambda _: None)
    try:
        yield session
    finally:
        assert session.close() == []
        os.environ.clear()
        os.environ.update(before)
        use.leave()


class Folders(Protocol):
    """Makes folders, as ``pytest.TempPathFactory`` does."""

    def mktemp(self, basename: str, /) -> Path: ...


def emulated_gate(tmp_path_factory: Folders, edit: Callable[[str], str] = lambda text: text) -> Iterator[EmulatedGate]:
    """Yield a gate with a running lab, whose file ``edit`` may change, for module fixtures."""
    folder = tmp_path_factory.mktemp("emulated-gate")
    (folder / "emulated.yaml").write_text(edit(gate_text()))
    known = LAB / "emulated.calibration.yaml"
    if known.exists():
        shutil.copy(known, folder / known.name)
    with card_or_skip():
        lab = GateLab(folder / "emulated.yaml")
    try:
        project = Project(tmp_path_factory.mktemp("project"), lab)
        project.write("test_change.py", TESTS)
        yield EmulatedGate(project)
    finally:
        lab.down()
