"""Writes a lab file that did not exist before, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_pinet.config import labfile
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.output_file import writing
from pytest_pinet.execution.path_kind import is_folder


def check_free(file: str) -> None:
    """Check that a file does not exist, before any work is done for it. Raises ConfigError."""
    if os.path.lexists(file):
        raise _exists(file)
    if not is_folder(Path(file).parent):
        raise ConfigError(f"cannot write {file}: there is no folder {Path(file).parent}")


def write(file: str, text: str) -> LabOfFile:
    """Write a new lab file, and return it as ``pinet check`` reads it. Raises ConfigError."""
    lab = labfile.resolve(text, file)
    with writing(file, "--output"):
        try:
            # O_EXCL: a file that another program has written meanwhile stays as it is.
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise _exists(file) from None
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as target:
                target.write(text)
                target.flush()
                os.fsync(target.fileno())
        except OSError:
            Path(file).unlink(missing_ok=True)
            raise
    return lab


def _exists(file: str) -> ConfigError:
    return ConfigError(f"{file} exists already, and is not changed; choose another file with --output")
