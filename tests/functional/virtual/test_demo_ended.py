"""`pinet demo` ends while it measures: by Ctrl-C, or killed. Nothing stays but what `--remove` removes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.cli.command import INTERRUPTED
from pytest_pinet.virtual.runtime import Runtime
from tests.support.gate_project import PINET, processes_in, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]


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
