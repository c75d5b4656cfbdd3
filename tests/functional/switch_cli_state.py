"""What a stand-in for a switch knows, in a JSON file that all its sessions share."""

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
    """The state, for us alone; what was changed is written back, even when the caller hangs up meanwhile."""
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
    """The fault planted for this command: one that drops happens as often as is written there."""
    with shared(file) as state:
        state["log"].append(command)
        faults = state["faults"]
        if faults.get("drop", {}).get(command, 0) > 0:
            faults["drop"][command] -= 1
            return "drop"
        return next((kind for kind in ("hang", "lie") if command in faults.get(kind, ())), None)
