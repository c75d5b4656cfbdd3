"""The state of a switch stand-in, in a JSON file that all its sessions share."""

from __future__ import annotations

import fcntl
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

State = dict[str, Any]


@contextmanager
def shared(file: Path) -> Iterator[State]:
    """Yield the state with an exclusive lock. Changes are written back, even if the session is hung up meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGTERM})
    try:
        with file.open("r+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            state = json.load(stream)
            yield state
            stream.seek(0)
            stream.truncate()
            json.dump(state, stream)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def faulty(file: Path, command: str) -> str | None:
    """Return the planted fault of this command. A drop happens as often as the state says."""
    with shared(file) as state:
        state["log"].append(command)
        faults = state["faults"]
        if faults.get("drop", {}).get(command, 0) > 0:
            faults["drop"][command] -= 1
            return "drop"
        return next((kind for kind in ("hang", "lie") if command in faults.get(kind, ())), None)
