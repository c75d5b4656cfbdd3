"""A gate of a build that is killed at any point: the next one recovers by itself, and known-good boots."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.emulated_gate import NODES, EmulatedGate, emulated_gate
from tests.support.gate_project import PINET

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

SEED = 15
POINTS = 10
BUILD = "name: as it is, booted\ncmdline: pinet.same=1\n"
BOARD = NODES[0]
# A deployment adds files only below these folders, each with the project's name in it.
FOLDERS = "/boot/firmware /lib/modules /var/lib"


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGate]:
    yield from emulated_gate(tmp_path_factory)


def on_the_board(gate: EmulatedGate, command: str) -> str:
    return gate.project.lab.execute(BOARD, command)


def assert_known_good(gate: EmulatedGate, cmdline: str) -> None:
    """Assert that nothing of a build is left, and that the board boots without one."""
    gate.switch(on=False)
    gate.switch(on=True)
    assert on_the_board(gate, "cat /proc/cmdline") == cmdline
    assert "pytest-pinet" not in on_the_board(gate, f"ls -a {FOLDERS}")


@pytest.mark.soak(
    "If pytest is killed at any point of a gate on a build, the next gate passes without help,"
    " and the board boots its known-good kernel with no file of the build left.",
    runs=POINTS,
    minutes=45,
)
def test_a_gate_is_killed(gate: EmulatedGate, soak_number: int) -> None:
    gate.switch(on=True)
    cmdline = on_the_board(gate, "cat /proc/cmdline")
    started = time.monotonic()
    assert gate.run(BUILD, "-k", "rx") == 0, gate.text
    whole_s = time.monotonic() - started
    assert_known_good(gate, cmdline)
    # One point in each tenth of a whole gate's duration.
    part = (soak_number % POINTS + random.Random(f"{SEED}/{soak_number}").random()) / POINTS
    argv = [PINET, "gate", "build.yaml", f"--lab={gate.project.lab.file}", ".", "-k", "rx"]
    with subprocess.Popen(
        argv, cwd=gate.project.path, env=gate.project.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as process:
        time.sleep(part * whole_s)
        assert process.poll() is None, "the gate ended before its time"
        process.kill()
    print(f"killed after {part * whole_s:.0f} of {whole_s:.0f} s")  # noqa: T201  (into the log of the run)
    assert gate.run(BUILD, "-k", "rx") == 0, gate.text
    assert gate.came == {"rx": "unchanged"}
    assert_known_good(gate, cmdline)
