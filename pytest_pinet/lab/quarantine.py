"""Nodes that are out of service for the rest of a run, known to all of its processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LONGEST_REASON = 500


class Quarantine:
    """Which nodes could not be brought up, and why.

    ``folder`` is shared by the workers of a run; None keeps it to this process.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._own: dict[str, str] = {}

    def add(self, node: str, reason: str) -> None:
        """Take a node out of service; the first reason stays."""
        reason = reason.strip()[:LONGEST_REASON]
        self._own.setdefault(node, reason)
        if self._folder is None:
            return
        draft = self._folder / f".{node}.{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(reason, encoding="utf-8", errors="replace")
            # Complete or not there, for whoever reads it meanwhile.
            os.link(draft, self._folder / node)
        except OSError:
            # Another worker was first, or the disk is full; then each worker finds out for itself.
            pass
        finally:
            with suppress(OSError):
                draft.unlink()

    def reason(self, node: str) -> str | None:
        """Why it is out of service, or None when it is not."""
        if node not in self._own and self._folder is not None:
            try:
                self._own[node] = (self._folder / node).read_text(encoding="utf-8")
            except OSError:
                return None
        return self._own.get(node)
