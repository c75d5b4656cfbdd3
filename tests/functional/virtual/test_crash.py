"""When a virtual lab ends in any way, nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from pytest_pinet.cli.command import INTERRUPTED
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual import launcher as launching
from pytest_pinet.virtual.container import ProcessId, wait_gone
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.runtime import Runtime
from tests.support.gate_project import PINET, processes_in
from tests.support.small_virtual_lab import processes, small_lab
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def power_on(lab: Lab) -> list[ProcessId]:
    """Switch two nodes on. Return the processes of nodes and switch."""
    runtime = Runtime.of(lab.file)
    ports = runtime.read_json("ports.json")
    assert ports is not None
    for index in (1, 2):
        url = f"http://127.0.0.1:{ports['pdu']}/relay/{index}/value"
        urlopen(Request(url, data=b"1", method="PUT"), timeout=20).close()
    machines = runtime.read_json("machines.json")
    assert machines is not None
    assert len(machines["processes"]) == 6
    return [ProcessId(**value) for value in machines["processes"]]


def marked(lab: Lab) -> list[int]:
    """Return the processes with the lab's mark in their environment, and all processes in their namespaces."""
    mark = f"PINET_VLAB={Runtime.of(lab.file).path}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def assert_nothing_left(lab: Lab, known: list[ProcessId]) -> None:
    assert wait_gone(known, 30.0) == []
    assert marked(lab) == []
    assert not Runtime.of(lab.file).path.exists()
    assert not Runtime.of(lab.file).path.with_suffix(".lock").exists()


def test_down_removes_everything(lab: Lab) -> None:
    launcher().up(lab)
    known = [*power_on(lab), *processes(lab).values()]
    assert len(marked(lab)) >= 3
    launcher().down(lab)
    assert_nothing_left(lab, known)
    launcher().down(lab)  # harmless
    assert launcher().find(lab) is None


def test_nodes_end_with_a_killed_daemon_and_down_removes_the_rest(lab: Lab) -> None:
    launcher().up(lab)
    machines = power_on(lab)
    known = processes(lab)
    known["daemon"].kill(signal.SIGKILL)
    assert wait_gone(machines, 30.0) == []
    assert known["coordinator"].alive
    assert launcher().find(lab) is None
    launcher().down(lab)
    assert_nothing_left(lab, [*machines, *known.values()])


def test_ctrl_c_ends_a_daemon_that_has_not_written_its_process_id(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object, what: str, *__: object) -> None:
        assert what == "the daemon to bind its ports"
        raise KeyboardInterrupt

    monkeypatch.setattr(launching, "_await", interrupted)
    with pytest.raises(KeyboardInterrupt):
        launcher().up(lab)
    assert marked(lab) == []


def test_up_after_a_crash_starts_a_new_lab(lab: Lab) -> None:
    first = launcher().up(lab)
    known = processes(lab)
    known["daemon"].kill(signal.SIGKILL)
    second = launcher().up(lab)
    assert wait_gone(known.values(), 30.0) == []
    assert second["LG_COORDINATOR"] != first["LG_COORDINATOR"]


def test_sigterm_to_the_daemon_ends_everything(lab: Lab) -> None:
    launcher().up(lab)
    known = [*power_on(lab), *processes(lab).values()]
    processes(lab)["daemon"].kill(signal.SIGTERM)
    assert wait_gone(known, 30.0) == []


def test_two_labs_run_at_once(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = small_lab(tmp_path / "other")
    try:
        assert launcher().up(lab)["LG_COORDINATOR"] != launcher().up(other)["LG_COORDINATOR"]
        power_on(lab)
        power_on(other)
    finally:
        launcher().down(other)
    assert launcher().find(lab) is not None


def test_two_simultaneous_starts_share_one_lab(lab: Lab) -> None:
    code = (
        "import sys; from pytest_pinet.config.labfile import load;"
        "from pytest_pinet.virtual.launcher import launcher;"
        "print(launcher().up(load(sys.argv[1]))['LG_COORDINATOR'])"
    )
    argv = [sys.executable, "-c", code, lab.file]
    both = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    addresses = [process.communicate(timeout=30)[0] for process in both]
    assert addresses[0] == addresses[1] != ""


USER = """
import sys, time
from pytest_pinet.config.labfile import load
from pytest_pinet.virtual.launcher import launcher
use = launcher().use(load(sys.argv[1]), "one run", lambda: None)
print("used", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_the_lab_of_a_killed_process_stops_itself(tmp_path: Path, number: int) -> None:
    lab = small_lab(tmp_path)
    runtime = Runtime.of(lab.file)
    user = subprocess.Popen([sys.executable, "-c", USER, lab.file], stdout=subprocess.PIPE, text=True)
    try:
        assert user.stdout is not None
        assert user.stdout.readline() == "used\n"
        known: list[ProcessId] = list(processes(lab).values())
        assert all(process.alive for process in known)
        user.send_signal(number)
        assert user.wait(30) == -number
        wait_until("the end of the lab", lambda: not runtime.path.exists())
        assert wait_gone(known, 30.0) == []
        assert not runtime.path.with_suffix(".lock").exists()
    finally:
        user.kill()
        user.wait()
        assert user.stdout is not None
        user.stdout.close()


def links() -> str:
    return subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of all processes that work in this folder or name it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_text().replace("\0", " ") if entry.name.isdigit() else ""
            if line and (str(folder) in line or (entry / "cwd").readlink().is_relative_to(folder)):
                found.append(line)
        except OSError:
            # It has ended.
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_nothing_is_left_of_a_demo_that_ends_while_it_measures(tmp_path: Path, end: signal.Signals) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    before = links()
    output = tmp_path / "output"
    with output.open("wb") as stream:
        demo = subprocess.Popen(
            [PINET, "demo", "--yes"], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=stream,
            stderr=stream, start_new_session=True,
        )  # fmt: skip
    runtime = Runtime.of(str(tmp_path / ".pinet/demo/lab.yaml"))
    try:
        wait_until("traffic", lambda: len(processes_in(runtime, "iperf3")) >= 2, 120)
        if end == signal.SIGINT:
            # As a terminal does: to all processes of the foreground.
            os.killpg(demo.pid, end)
            assert demo.wait(60) == INTERRUPTED
            assert "interrupted; the lab is stopped. To undo the rest: pinet demo --remove" in output.read_text()
            assert not runtime.path.exists()
        else:
            demo.kill()
            assert demo.wait(10) == -end
        wait_until("the end of the lab", lambda: not runtime.path.exists(), 90)
        wait_until("the end of all processes", lambda: not processes_of(tmp_path), 30)
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
            demo.wait()
        print(output.read_text())  # noqa: T201  (pytest shows it when the test fails)
    assert links() == before
    done = subprocess.run(
        [PINET, "demo", "--remove", "--yes"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "removed: 1 folder, 0 system packages" in done.stdout) == (0, True), done.stdout
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["output", "state"]
