"""Several runs use one virtual lab: the last one stops it, unless `pinet lab up` started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LabError
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual import launcher as launching
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.runtime import Runtime
from tests.support.gate_project import BIN, LAB_FILE, PINET
from tests.support.small_virtual_lab import processes
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]

RUN = """
import sys
from pytest_pinet.config.labfile import load
from pytest_pinet.config.labfile import load
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.access import LabAccess

access = LabAccess(load(sys.argv[1]), Identity.of_this_process(), 10, lambda text: print(text))
access.start()
print("ready", flush=True)
sys.stdin.readline()
print(access.close(), flush=True)
"""


class Run:
    """A process that uses the lab as pytest does."""

    def __init__(self, lab: Lab, **environment: str) -> None:
        variables = {k: v for k, v in os.environ.items() if k != "PINET_RUN"} | environment
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, lab.file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
        )

    def ready(self) -> list[str]:
        """Wait until the process uses the lab. Return its previous output."""
        assert self.process.stdout is not None
        said = []
        while (line := self.process.stdout.readline().strip()) != "ready":
            assert line, "it ended early"
            said.append(line)
        return said

    def leave(self) -> str:
        """Let the process end. Return the steps that it could not undo."""
        return self.process.communicate("\n", timeout=60)[0].strip()


@contextmanager
def runs(lab: Lab, count: int, **environment: str) -> Iterator[list[Run]]:
    found = [Run(lab, **environment) for _ in range(count)]
    try:
        yield found
    finally:
        for run in found:
            run.process.kill()
            run.process.communicate()


def is_up(lab: Lab) -> bool:
    return launcher().find(lab) is not None


def test_a_slow_lab_in_use_is_not_restarted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "ANSWER_TIMEOUT_S", 0.2)
    with runs(lab, 1) as (run,):
        run.ready()
        daemon = processes(lab)["daemon"]
        daemon.kill(signal.SIGSTOP)
        try:
            with pytest.raises(LabError, match=r"runs but did not answer within 0\.2 s; 1 run uses it"):
                launcher().use(lab, "another", lambda: None)
        finally:
            daemon.kill(signal.SIGCONT)
        wait_until("the daemon goes on", lambda: is_up(lab))
        assert processes(lab)["daemon"] == daemon
        assert run.leave() == "[]"


def test_two_simultaneous_runs_start_the_lab_once_and_the_last_one_stops_it(lab: Lab) -> None:
    with runs(lab, 2) as (one, other):
        assert sorted([one.ready(), other.ready()]) == [[], ["starting lab functional"]]
        assert one.leave() == "[]"
        assert is_up(lab)
        assert other.leave() == "[]"
    assert not Runtime.of(lab.file).path.exists()


def test_a_killed_run_is_no_longer_a_user(lab: Lab) -> None:
    with runs(lab, 2) as (killed, other):
        killed.ready()
        other.ready()
        killed.process.kill()
        killed.process.wait()
        assert is_up(lab)
        assert other.leave() == "[]"
    assert not is_up(lab)


def test_a_lab_started_by_pinet_lab_up_stays(lab: Lab) -> None:
    launcher().up(lab)
    with runs(lab, 1) as (run,):
        assert run.ready() == []
        assert run.leave() == "[]"
    assert is_up(lab)


def test_a_lab_stays_after_a_later_pinet_lab_up(lab: Lab) -> None:
    with runs(lab, 1) as (run,):
        run.ready()
        launcher().up(lab)
        assert run.leave() == "[]"
    assert is_up(lab)


def test_pinet_lab_down_always_stops_the_lab_and_prints_the_number_of_runs(lab: Lab) -> None:
    with runs(lab, 2) as (one, other):
        one.ready()
        other.ready()
        down = [PINET, "lab", "down", "--lab", lab.file]
        done = subprocess.run(down, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == "the lab was stopped while 2 runs used it\n"
        assert not is_up(lab)
        assert one.leave() == other.leave() == "[]"
        assert subprocess.run(down, capture_output=True, text=True, timeout=60, check=True).stdout == ""


def test_the_processes_of_one_run_count_as_one_user(lab: Lab) -> None:
    with runs(lab, 2, PINET_RUN="4711") as (controller, worker):
        controller.ready()
        worker.ready()
        users = Runtime.of(lab.file)
        assert users.runs() == ["4711"]
        worker.leave()
        assert users.runs() == ["4711"]
        assert is_up(lab)
        controller.leave()
        assert not is_up(lab)


def test_closing_the_access_restores_the_environment_and_leaves_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PINET_RUN", raising=False)
    before = dict(os.environ)
    access = LabAccess(lab, Identity.of_this_process(), 10, lambda _: None)
    access.start()
    access.start()
    assert os.environ["PINET_RUN"] == str(os.getpid())
    assert os.environ["LG_CONSOLE_PASSWORD"]
    assert access.close() == access.close() == []
    assert dict(os.environ) == before
    assert not is_up(lab)


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_pytest_stops_the_lab_that_it_started(tmp_path: Path, workers: str) -> None:
    (tmp_path / "virtual.yaml").write_text(LAB_FILE.read_text().replace("scale: auto", "scale: 1"))
    lab = load(tmp_path / "virtual.yaml")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.pinet(board='pi3b', nic='onboard')\n@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_it(link, n):\n    assert link.dut.shell.run('true').returncode == 0\n"
    )
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LG_", "PINET_"))}
    argv = [str(BIN / "pytest"), f"--pinet-lab={lab.file}", "-n", workers, "-q"]
    process = subprocess.Popen(argv, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True)
    wait_until("the lab", lambda: is_up(lab) or process.poll() is not None, 60)
    print(process.communicate(timeout=120)[0])  # noqa: T201  (pytest shows it when the test fails)
    assert process.returncode == 0
    assert not Runtime.of(lab.file).path.exists()
