"""Where the output of a running command goes: an unnamed file, since a pipe that nobody reads blocks after 64 KiB."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path


class Spool:
    """One unnamed file; give ``fileno`` to the child. It is closed with this object."""

    def __init__(self) -> None:
        self.fileno, path = tempfile.mkstemp(prefix="pinet-")
        Path(path).unlink()
        weakref.finalize(self, os.close, self.fileno)

    def read(self, offset: int = 0) -> bytes:
        """Everything from ``offset`` on; by pread, since the child writes through the same file offset."""
        chunks = []
        while chunk := os.pread(self.fileno, 1 << 20, offset):
            chunks.append(chunk)
            offset += len(chunk)
        return b"".join(chunks)
