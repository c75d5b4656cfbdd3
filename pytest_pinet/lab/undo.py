"""Undo: registered on the line after each change, run in reverse order, all of them, even when one fails."""

from __future__ import annotations

from collections.abc import Callable


class UndoStack:
    """Undo steps of one piece of work; ``close`` runs them and returns a sentence for each one that failed."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []

    def add(self, what: str, step: Callable[[], object]) -> None:
        """Register the step that takes back a change; ``what`` names it (``address 198.18.0.1/30 on pi4b-1 eth0``)."""
        self._steps.append((what, step))

    def close(self) -> list[str]:
        """Run all steps, last first; what could not be undone is returned for the caller to report loudly."""
        failures = []
        while self._steps:
            what, step = self._steps.pop()
            try:
                step()
            except Exception as error:
                first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
                failures.append(f"could not undo {what}: {first_line}")
        return failures
