"""Undo: registered on the line after each change, run in reverse order, all of them, even when one fails."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pytest_pinet.errors import first_line


class UndoStack:
    """Undo steps of one piece of work; ``close`` runs them and returns a sentence for each one that failed."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object], str | None]] = []

    def add(self, what: str, step: Callable[[], object], node: str | None = None) -> None:
        """Register the step that takes back a change; ``what`` names it (``address 198.18.0.1/30 on pi4b-1 eth0``).

        ``node`` is the only one that the step touches; None when it touches all of them.
        """
        self._steps.append((what, step, node))

    def close(self, lost: Collection[str] = ()) -> list[str]:
        """Run all steps, last first; what could not be undone is returned for the caller to report loudly.

        Nothing that touches a node in ``lost`` is run: it is somebody else's by now.
        """
        failures = []
        while self._steps:
            what, step, node = self._steps.pop()
            theirs = sorted(lost) if node is None else [node] if node in lost else []
            if theirs:
                failures.append(f"left {what} as it is: {' and '.join(theirs)} is not ours any more")
                continue
            try:
                step()
            except Exception as error:
                failures.append(f"could not undo {what}: {first_line(error)}")
        return failures
