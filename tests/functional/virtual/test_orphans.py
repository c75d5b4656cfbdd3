"""A virtual lab whose only user is killed stops itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_pinet.virtual.container import ProcessId, wait_gone
from pytest_pinet.virtual.runtime import Runtime
from tests.support.gate_project import wait_until
from tests.support.small_virtual_lab import processes, small_lab

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
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
