"""``tools/clean-root`` runs a command in a new Debian, which shares nothing with this machine, and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
TOOL = str(CHECKOUT / "tools" / "clean-root")
# Unpacking a minimal Debian takes some 20 s on an idle machine.
TIMEOUT_S = 300


def left() -> set[Path]:
    """Return the files and control groups of all new roots."""
    return {*Path("/var/tmp").glob("pinet-clean-root.*"), *Path("/sys/fs/cgroup").glob("cpu/pinet-clean-root.*")}


@pytest.fixture
def before() -> Iterator[set[Path]]:
    found = left()
    yield found
    # Of this test. CI itself runs in such a root.
    assert left() <= found


LOOK = """
import os, pathlib, socket, subprocess, sys
assert os.getuid() == 0 and socket.gethostbyname("localhost") == "127.0.0.1"
assert subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip() == sys.argv[1]
assert pathlib.Path("Makefile").stat().st_mode & 0o444 == 0o444
assert not pathlib.Path(sys.argv[2]).exists(), "files of the machine"
assert len([one for one in pathlib.Path("/proc").iterdir() if one.name.isdigit()]) < 10, "processes of the machine"
assert os.environ["PINET_PASSED_ON"] == "1" and "KEPT_BACK" not in os.environ
sys.exit(7)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a new root needs root")
def test_a_command_sees_a_new_debian_and_its_exit_status_is_passed_on(before: set[Path], tmp_path: Path) -> None:
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=CHECKOUT, text=True).strip()
    environment = {**os.environ, "PINET_PASSED_ON": "1", "KEPT_BACK": "1"}

    argv = [TOOL, "python3", "-c", LOOK, head, str(tmp_path)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert (done.returncode, "Traceback" in done.stderr) == (7, False), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a new root needs root")
def test_a_killed_run_leaves_nothing(before: set[Path]) -> None:
    argv = [TOOL, "sh", "-c", "echo here; exec sleep 1000"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "here\n"
        assert left() > before
        started.kill()
        # The pipe closes when the last process in the root has ended.
        assert started.stdout.read() == ""
    until = time.monotonic() + 60
    while not left() <= before:
        assert time.monotonic() < until, f"{left() - before} is left"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        ([], "it names no command"),
        (["--suite", "sid", "true"], "unknown suite 'sid'; accepted: bookworm, trixie"),
        (["--suite"], "--suite names no suite"),
        (["--keep", "true"], "unknown option '--keep'"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_form_of_the_call(words: list[str], mistake: str) -> None:
    done = subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4
    form = "tools/clean-root [--suite bookworm|trixie] COMMAND [ARGUMENT ...]"
    assert done.stderr == f"tools/clean-root: {mistake}; usage: {form}\n"
