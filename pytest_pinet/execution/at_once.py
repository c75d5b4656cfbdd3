"""Calls that are made at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def at_once(call: Callable[[T], R], targets: Sequence[T]) -> list[R]:
    """Call ``call`` for all targets at the same time, one thread each; return what the calls return, in order.

    Raises the first error when all calls have ended. An interrupt of this thread ends no call.
    """
    with ThreadPoolExecutor(max(1, len(targets)), thread_name_prefix="pinet-at-once") as pool:
        return list(pool.map(call, targets))
