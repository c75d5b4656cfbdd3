"""A format that is fuzzed, and what its readers need: samples, a folder, text."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.errors import PinetError

ROOT = Path(__file__).parents[2]
SCRATCH = Path(tempfile.mkdtemp(prefix="pinet-fuzz-"))


@dataclass(frozen=True)
class Target:
    """A format. ``read`` gets the content of a file; ``refusals`` are the errors with which it may refuse it."""

    samples: Callable[[], list[bytes]]
    read: Callable[[bytes], object]
    refusals: tuple[type[BaseException], ...] = (PinetError,)


def files(*patterns: str) -> Callable[[], list[bytes]]:
    """Return samples: the content of files of this project."""
    return lambda: [path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def in_file(name: str, data: bytes) -> Path:
    """Write a file for a reader, and return its path."""
    path = SCRATCH / name
    path.write_bytes(data)
    return path


def as_text(read_text: Callable[[str], object]) -> Callable[[bytes], object]:
    """Return a reader of bytes from a reader of text."""
    return lambda data: read_text(data.decode("utf-8", "replace"))
