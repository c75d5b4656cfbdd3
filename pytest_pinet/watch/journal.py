"""The file of a watch: a JSON object in each line, written to the disk at once, so that a crash loses nothing."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.files import writing

NAME = "events.jsonl"
# The values depend on `what`.
Record = dict[str, Any]  # type: ignore[explicit-any]


def read(folder: Path) -> list[Record]:
    """Return the records of a watch. A last line that a crash cut off is left out. Raises ConfigError."""
    try:
        text = (folder / NAME).read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        raise ConfigError(f"{folder} has no {NAME}; expected the folder of a watch") from None
    except OSError as error:
        raise ConfigError(f"cannot read {folder / NAME}: {error.strerror}") from None
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            record = json.loads(line)
            if not isinstance(record["what"], str) or not isinstance(record["t"], float):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            # A record may follow a line that was cut off.
            if number == 1:
                raise ConfigError(f"{folder / NAME} is no file of a watch") from None
            continue
        found.append(record)
    return found


class Journal:
    """Appends records to the file of a watch. Only one process at a time may do so. Raises ConfigError, OutputError."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        with writing(self._path):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ConfigError(f"another `pinet watch` writes to {folder}; choose another folder") from None
        self.records = read(folder) if self._path.stat().st_size else []
        if self.records and not self._path.read_bytes().endswith(b"\n"):
            self._write(b"\n")

    def add(self, at_s: float, what: str, **values: object) -> None:
        """Append a record of this time (s since 1970). Raises OutputError."""
        record: Record = {"t": round(at_s, 2), "what": what, **values}
        record["t"] = float(record["t"])
        self.records.append(record)
        self._write(json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        with writing(self._path):
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
