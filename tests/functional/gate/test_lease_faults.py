"""A worker, coordinator or exporter dies during traffic: a lab error names it, and the next test runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.virtual.container import ProcessId
from pytest_pinet.virtual.runtime import Runtime
from tests.support.gate_project import BIN, GateLab, Project, lab_text
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

QUICK = "duration=1, warmup=0.5, bitrate='20 Mbit/s', min='10 Mbit/s'"
TESTS = f"""
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_long(link, gate):
    gate.tcp(link, duration=30, bitrate="20 Mbit/s", min="10 Mbit/s")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_next(link, gate):
    gate.tcp(link, {QUICK})
"""


class FragileLab(GateLab):
    """A virtual lab whose coordinator and exporter are killed and restarted, as a service manager would."""

    def _process(self, name: str) -> ProcessId:
        state = self._runtime.read_json("state.json")
        assert state is not None
        return ProcessId(**state["processes"][name])

    def restart(self, *names: str) -> None:
        """Kill all these processes, then restart them in this order with their old arguments."""
        started = {}
        for name in names:
            process = Path(f"/proc/{self._process(name).pid}")
            argv = (process / "cmdline").read_text().split("\0")[:-1]
            started[name] = (argv, (process / "cwd").readlink())
        for name in names:
            os.kill(self._process(name).pid, signal.SIGKILL)
        for name in names:
            wait_until(f"the end of {name}", lambda name=name: not self._process(name).alive)  # type: ignore[misc]
        for name, (argv, folder) in started.items():
            if "-l" in argv:
                argv[argv.index("-l") + 1] = self.environment["LG_COORDINATOR"]
            self._start(name, argv, folder)

    def _start(self, name: str, argv: list[str], folder: Path) -> None:
        log = self._runtime.log(name)
        environment = {**os.environ, "PINET_VLAB": str(self._runtime.path), "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as file:
            process = subprocess.Popen(
                argv,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.children.append(process)
        state = self._runtime.read_json("state.json")
        identity = ProcessId.of(process.pid)
        assert state is not None
        assert identity is not None
        state["processes"][name] = vars(identity)
        self._runtime.write_json("state.json", state)
        ready = {"coordinator": "listening on", "exporter": "creating poll task"}[name]
        wait_until(f"{name} to be back", lambda: ready in log.read_text(), timeout_s=20)

    def __init__(self, file: Path) -> None:
        self.children: list[subprocess.Popen[bytes]] = []
        super().__init__(file)

    def down(self) -> None:
        super().down()
        for child in self.children:
            child.wait(10)

    def holder_pids(self) -> list[int]:
        """Return the processes of this host that hold places."""
        client = [str(BIN / "labgrid-client"), "-x", self.environment["LG_COORDINATOR"]]
        done = subprocess.run([*client, "who"], capture_output=True, text=True, timeout=30, check=True)
        return [int(pid) for pid in re.findall(r"pinet-\w+-(\d+)-\d+-", done.stdout)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FragileLab]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    file = tmp_path_factory.mktemp("fragile-lab") / "virtual.yaml"
    file.write_text(lab_text())
    assert Runtime.of(str(file)).read_json("state.json") is None
    fragile = FragileLab(file)
    yield fragile
    fragile.down()


@pytest.fixture
def project(tmp_path: Path, lab: FragileLab) -> Iterator[Project]:
    made = Project(tmp_path, lab)
    made.write("test_faults.py", TESTS)
    yield made
    assert lab.holders() == []
    assert lab.processes("iperf3") == []


def begin(project: Project, *options: str) -> subprocess.Popen[str]:
    """Start pytest and wait until the traffic of its first test runs."""
    process = subprocess.Popen(
        project.argv("-v", *options),
        cwd=project.path,
        env=project.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        project.lab.await_traffic()
    except BaseException:
        process.kill()
        print(process.communicate()[0])  # noqa: T201  (pytest shows it when the test fails)
        raise
    return process


def finish(process: subprocess.Popen[str]) -> str:
    try:
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    print(output)  # noqa: T201  (pytest shows it when the test fails)
    return output


def test_a_coordinator_that_is_killed_and_comes_back_costs_one_test(project: Project, lab: FragileLab) -> None:
    process = begin(project)
    lab.restart("coordinator", "exporter")
    output = finish(process)
    assert re.search(
        r"\nthe connection to the labgrid coordinator at 127\.0\.0\.1:\d+ was lost\n"
        r"\s*-> the lab's admin: check that labgrid-coordinator runs there",
        output,
    )
    assert "ERROR test_faults.py::test_long[pi3b:onboard/pair] - CoordinatorError: the " in output
    assert "1 passed, 1 error" in output
    assert "could not" not in output
    assert project.verdicts == {"test_long[pi3b:onboard/pair]": "error", "test_next[pi3b:onboard/pair]": "pass"}
    assert lab.nodes_on() == set()


def test_an_exporter_that_is_killed_and_comes_back_costs_one_test(project: Project, lab: FragileLab) -> None:
    process = begin(project)
    lab.restart("exporter")
    output = finish(process)
    assert re.search(r"\nthe labgrid exporter pinet of place \S+ went away during the test\n\s*-> run the", output)
    assert "ERROR test_faults.py::test_long[pi3b:onboard/pair] - CoordinatorError: the " in output
    assert "1 passed, 1 error" in output
    assert "could not" not in output
    assert lab.nodes_on() == set()


def test_a_worker_that_is_killed_costs_one_test_and_its_places_come_back(project: Project, lab: FragileLab) -> None:
    process = begin(project, "-n", "1")
    (pid,) = set(lab.holder_pids())
    os.kill(pid, signal.SIGKILL)
    output = finish(process)
    assert re.search(r"LeaseError: worker gw0 died while it ran this test; its places \S+, \S+ were released", output)
    assert "1 passed, 1 error" in output
