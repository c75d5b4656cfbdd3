"""Waits for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(what: str, condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait for a condition. ``what`` names it in the error message."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s:g} s still waiting for {what}")
        time.sleep(0.05)
