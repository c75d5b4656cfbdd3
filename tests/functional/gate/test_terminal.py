"""The effect of pytest's options on a run of the gate, and the output on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support.gate_project import GateLab, NewProject, Project

# A set bitrate, because goodput does not matter in these tests.
pytestmark = pytest.mark.slow

TESTS = """
import pytest

@pytest.mark.parametrize("direction", ["tx", "rx"])
@pytest.mark.pinet(board="pi3b", nic="onboard", min="10 Mbit/s")
def test_rate(link, gate, direction):
    print("to be captured")
    gate.tcp(link, direction=direction, duration=1, warmup=0.5, bitrate="20 Mbit/s")
"""
LONGER = TESTS.replace("duration=1", "duration=2.5")


@pytest.fixture(scope="module")
def project(new_project: NewProject, gate_lab: GateLab) -> Iterator[Project]:
    """Yield a project with nodes that stay on, which makes each run a second shorter."""
    gate_lab.switch_power(True, "pi3b-1", "cm4-1")
    gate_lab.await_boot("pi3b-1", "cm4-1")
    yield new_project({"test_rate.py": TESTS})
    gate_lab.switch_power(False, "pi3b-1", "cm4-1")


def on_a_terminal(project: Project, *options: str, **environment: str) -> str:
    """Run pytest with a terminal of 80 columns as its standard streams. Return all that the terminal received."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        project.argv(*options),
        cwd=project.path,
        env=project.environment(TERM="xterm", **environment),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    output = b""
    deadline = time.monotonic() + 60
    try:
        while select.select([master], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the last process that had the terminal ended
                break
            output += piece
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return output.decode()


def test_a_terminal_gets_one_line_that_rewrites_itself_without_colours_if_so_asked(project: Project) -> None:
    project.write("test_longer.py", LONGER)
    output = on_a_terminal(project, "test_longer.py", "-k", "tx", NO_COLOR="1")
    drawn = [piece for piece in re.split(r"[\r\n]", output) if re.search(r"pair +[0-9]/[0-9] s ", piece)]
    assert len(drawn) >= 2
    for piece in drawn:
        assert re.match(r"  pi3b:onboard/pair +[0-9]/3 s +tx +(-|[0-9.]+ Mbit/s)", piece), piece
        assert len(piece.rstrip()) < 80
        # Each piece begins at the start of the previous piece's line.
        assert f"\r{piece}" in output
        assert f"{piece.rstrip()}\n" not in output.replace("\r", "")
    assert re.search(r" Mbit/s  retr [0-9]+  \[\S+\]", drawn[-1]), drawn[-1]
    rates = [float(rate) for rate in re.findall(r"tx +([0-9.]+) Mbit/s", drawn[-1])]
    assert rates == pytest.approx([20], rel=0.5)
    # The progress line is gone when the verdict is printed. NO_COLOR leaves no escape codes.
    verdict = re.search(r"\r(\. +\[100%\])", output)
    assert verdict is not None
    assert len(verdict[1]) == 79
    assert "pinet throughput" in output
    assert "\x1b" not in output
