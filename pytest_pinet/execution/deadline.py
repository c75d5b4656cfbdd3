"""A deadline that is passed down the calls, so that code waits for conditions and never sleeps for a fixed time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar


class Deadline:
    """A point in monotonic time that all steps of a task share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self._end

    def wait_until(self, condition: Callable[[], bool], interval_s: float = 0.05) -> bool:
        """Poll until the condition holds. Return False if the deadline passes first."""
        while not condition():
            if self.expired:
                return False
            time.sleep(min(interval_s, self.remaining_s))
        return True


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
