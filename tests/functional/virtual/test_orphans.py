"""A virtual lab whose starter dies is stopped by another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_pinet.virtual.runtime import Runtime
from tests.support.gate_project import wait_until
from tests.support.small_virtual_lab import LAB_FILE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
STARTER = """
import sys, time
from pytest_pinet.config.labfile import load
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.orphans import stopped_at_last
with stopped_at_last(sys.argv[1]):
    launcher().up(load(sys.argv[1]))
    print("up", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_lab_of_a_killed_or_interrupted_process_is_stopped(tmp_path: Path, number: int) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB_FILE)
    runtime = Runtime.of(str(file))
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(file)], stdout=subprocess.PIPE, text=True)
    try:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        assert runtime.path.exists()
        starter.send_signal(number)
        assert starter.wait(30) != 0
        wait_until("the end of the lab", lambda: not runtime.path.exists())
    finally:
        starter.kill()
        starter.wait()
        assert starter.stdout is not None
        starter.stdout.close()
