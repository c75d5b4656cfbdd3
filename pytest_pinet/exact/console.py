"""The console of a guest, as far as it is kept: a guest that prints without end must not fill the memory."""

from __future__ import annotations

import re

# Octets of the end of the console.
KEPT = 1 << 20
# No line that a program waits for is longer.
_LINE = 4096
_PANIC = re.compile(rb"Kernel panic - not syncing: [^\n]*\n")


class Console:
    """The last ``KEPT`` octets or more of a console, and the first panic before them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._recent = b""
        self._panic = b""

    def add(self, data: bytes) -> bytes:
        """Add octets. Return the latest output, in which a line that came in several parts is complete."""
        data = data.replace(b"\r", b"")
        self._parts.append(data)
        self._size += len(data)
        if self._size > 2 * KEPT:
            text = b"".join(self._parts)
            if not self._panic and (found := _PANIC.search(text)):
                self._panic = found[0]
            self._parts, self._size = [text[-KEPT:]], KEPT
        recent = self._recent + data
        self._recent = recent[-_LINE:]
        return recent

    @property
    def text(self) -> str:
        """The end of the console. The line of the first panic is its first line if it was longer ago."""
        text = b"".join(self._parts)
        return (text if self._panic in text else self._panic + text).decode("utf-8", "replace")
