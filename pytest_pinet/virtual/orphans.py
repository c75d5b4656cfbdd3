"""Stops a virtual lab when the process that started it dies: ``python -m pytest_pinet.virtual.orphans LAB_FILE``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_pinet.virtual.launcher import stop
from pytest_pinet.virtual.runtime import Runtime

# How long the runs in a lab may take to undo their changes.
RUNS_END_S = 30.0
_POLL_S = 0.1


@contextmanager
def stopped_at_last(lab_file: str) -> Iterator[None]:
    """Stop the lab at the end, also if this process is killed: then another process, which waits for that, does it."""
    reader, writer = os.pipe()
    argv = [sys.executable, "-m", "pytest_pinet.virtual.orphans", lab_file]
    # In a session of its own, Ctrl-C does not reach it.
    watcher = subprocess.Popen(
        argv, stdin=reader, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    os.close(reader)
    try:
        yield
    finally:
        stop(lab_file)
        os.close(writer)
        watcher.wait()


def main(lab_file: str) -> int:
    """Wait until no other process holds the pipe that is our standard input, then stop the lab."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    runtime = Runtime.of(lab_file)
    deadline = time.monotonic() + RUNS_END_S
    while runtime.path.exists() and time.monotonic() < deadline:
        with runtime.locked():
            if not runtime.runs():
                break
        time.sleep(_POLL_S)
    stop(lab_file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
