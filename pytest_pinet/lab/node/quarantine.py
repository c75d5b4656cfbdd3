"""Quarantined nodes: skipped for the rest of a run by all of its processes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LONGEST_REASON = 500


class Quarantine:
    """Knows which nodes could not be brought up, and why.

    The workers of a run share ``folder``. With None the quarantine holds for this process only.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._own: dict[str, str] = {}

    def add(self, node: str, reason: str) -> None:
        """Quarantine a node; the first reason stays."""
        reason = reason.strip()[:LONGEST_REASON]
        self._own.setdefault(node, reason)
        if self._folder is None:
            return
        draft = self._folder / f".{node}.{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(reason, encoding="utf-8", errors="replace")
            # The link appears with its full content, because other workers may read it at any time.
            os.link(draft, self._folder / node)
        except OSError:
            # Another worker was first, or the disk is full. If it is full, each worker finds out for itself.
            pass
        finally:
            with suppress(OSError):
                draft.unlink()

    def reason(self, node: str) -> str | None:
        """Return why the node is quarantined, or None if it is not."""
        if node not in self._own and self._folder is not None:
            try:
                self._own[node] = (self._folder / node).read_text(encoding="utf-8")
            except OSError:
                return None
        return self._own.get(node)
