"""An unnamed file for the output of a running command. A pipe without a reader would block after 64 KiB."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path


class Spool:
    """One unnamed file; pass ``fileno`` to the child process. The file is closed when this object is deleted."""

    def __init__(self) -> None:
        self.fileno, path = tempfile.mkstemp(prefix="pinet-")
        Path(path).unlink()
        weakref.finalize(self, os.close, self.fileno)

    def read(self, offset: int = 0) -> bytes:
        """Return all bytes from ``offset`` on. Uses pread, since the child shares the offset of the file."""
        chunks = []
        while chunk := os.pread(self.fileno, 1 << 20, offset):
            chunks.append(chunk)
            offset += len(chunk)
        return b"".join(chunks)
