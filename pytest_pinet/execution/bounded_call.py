"""Call a function that has no timeout of its own within a time limit."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def call_within(timeout_s: float, call: Callable[[], T]) -> T:
    """Return the result of ``call``, or raise its exception.

    Raises TimeoutError if the call takes longer than ``timeout_s``.

    The call runs in a thread. On a timeout the thread is left running, but the commands that it started are killed, so
    that a thread that waits for a command ends, too.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="bounded call", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        _kill_children(thread)
        raise TimeoutError(f"no answer within {timeout_s:g} s")
    if errors:
        raise errors[0]
    return results[0]


def _kill_children(thread: threading.Thread) -> None:
    try:
        # Lists only the children of this thread (needs CONFIG_PROC_CHILDREN, which every distribution sets).
        children = Path(f"/proc/self/task/{thread.native_id}/children").read_text().split()
    except OSError:
        return
    for pid in children:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
