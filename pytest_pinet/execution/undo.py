"""Undo steps: each is registered on the line after its change. All of them run, in reverse order, even if one fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pytest_pinet.errors import first_line

T = TypeVar("T")
R = TypeVar("R")


class UndoStack:
    """The undo steps of one piece of work. ``close`` runs them and returns a sentence for each step that failed."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object], str | None]] = []

    def add(self, what: str, step: Callable[[], object], node: str | None = None) -> None:
        """Register the step that undoes a change; ``what`` names the change (``address 198.18.0.1/30 on pi4b-1 eth0``).

        ``node`` is the only node that the step touches; None means that it touches all nodes.
        """
        self._steps.append((what, step, node))

    def at_once(self, step: Callable[[T, UndoStack], R], targets: Sequence[T]) -> list[R]:
        """Call ``step(target, undo)`` for all targets at the same time, one thread each; return what the calls return.

        The undo steps are run as if the calls had been made in order. Raises the first error when all calls have ended.
        """
        stacks = [UndoStack() for _ in targets]
        try:
            with ThreadPoolExecutor(max(1, len(targets)), thread_name_prefix="pinet-change") as pool:
                return list(pool.map(step, targets, stacks))
        finally:
            for stack in stacks:
                self._steps += stack._steps

    def close(self, lost: Collection[str] = ()) -> list[str]:
        """Run all steps, the last one first.

        Return a sentence for each failed step, which the caller must report loudly.

        Steps that touch a node in ``lost`` are not run, since another user may own this node now.
        """
        failures = []
        while self._steps:
            what, step, node = self._steps.pop()
            theirs = sorted(lost) if node is None else [node] if node in lost else []
            if theirs:
                failures.append(f"did not undo {what}: this run no longer holds {' and '.join(theirs)}")
                continue
            try:
                step()
            except Exception as error:
                failures.append(f"could not undo {what}: {first_line(error)}")
        return failures
