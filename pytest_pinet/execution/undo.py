"""Undo steps: each is registered on the line after its change. All of them run, in reverse order, even if one fails."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pytest_pinet.errors import first_line


class UndoStack:
    """The undo steps of one piece of work. ``close`` runs them and returns a sentence for each step that failed."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object], str | None]] = []

    def add(self, what: str, step: Callable[[], object], node: str | None = None) -> None:
        """Register the step that undoes a change; ``what`` names the change (``address 198.18.0.1/30 on pi4b-1 eth0``).

        ``node`` is the only node that the step touches; None means that it touches all nodes.
        """
        self._steps.append((what, step, node))

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
