"""Runs a pytest process with a deadline. Afterwards none of its processes is left."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

# Other plugins cost half a second per run.
PLUGINS = ("--disable-plugin-autoload", "-p", "tools.soak.plugin", "-p", "no:cacheprovider")
# Time to take down labs and switch off boards.
LEAVE_S = 90.0
_HOME = Path(__file__).parents[2]
_PR_SET_CHILD_SUBREAPER = 36


class DeadlineExceeded(Exception):
    """pytest did not end in time."""


def adopt_orphans() -> None:
    """Become the parent of all orphans below this process, so that they can be ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_pytest(root: Path, words: Sequence[str], log: Path, seconds: float) -> int:
    """Run pytest in ``root`` and return its exit status.

    After Ctrl-C or the deadline it can still shut down in order.
    """
    argv = [sys.executable, "-m", "pytest", *PLUGINS, *words]
    path = os.pathsep.join(filter(None, (str(_HOME), os.environ.get("PYTHONPATH"))))
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        process = subprocess.Popen(
            argv,
            cwd=root,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a terminal reaches only us, and we pass it on.
            start_new_session=True,
        )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded from None
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the process, then kill all that is left."""
    try:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while orphans := _children():
            for pid in orphans:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _children() -> list[int]:
    """Return our children, including adopted ones. Uses fields 2 (a name with spaces) and 4 of /proc/PID/stat."""
    found = []
    # A pattern with a file after the number would ask for each file outside `suppress`, also of a process just gone.
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(process.name))
    return found
