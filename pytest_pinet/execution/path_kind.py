"""Looks at paths that a user wrote. No answer is an error.

Before Python 3.14, ``Path.exists`` raises OSError for a name that is too long, and below a folder that is closed.
"""

from __future__ import annotations

import os
from pathlib import Path


def exists(path: Path | str) -> bool:
    """Return whether there is a file or folder that can be seen."""
    return os.path.exists(path)  # noqa: PTH110


def is_file(path: Path | str) -> bool:
    """Return whether there is a regular file, or a link to one."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path | str) -> bool:
    """Return whether there is a folder, or a link to one."""
    return os.path.isdir(path)  # noqa: PTH112
