"""The findings that are kept in results.json: of each row by its number, and of each control by its command."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.regressions.run import CAUGHT, PASSED, Finding
from benchmarks.regressions.table import Command, Row

FILE = Path(__file__).with_name("results.json")


def control_key(command: Command) -> str:
    """Return the name of a command's control. Commands that differ only in the build under test share one."""
    what = f"{command.unchanged} {command.against}".strip() if command.kind == "gate" else ""
    faster = "faster" if command.faster else ""
    words = (command.lab, command.kind, command.test, command.profile, what, *command.options, faster)
    return " ".join(word for word in words if word)


class Store:
    """The kept findings."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._found = self._read()

    def _read(self) -> dict[str, Finding]:
        if not self._file.exists():
            return {}
        return {key: Finding(**own) for key, own in json.loads(self._file.read_text()).items()}

    def has(self, key: str) -> bool:
        return key in self._found

    def row(self, row: Row) -> Finding | None:
        return self._found.get(str(row.number))

    def control(self, row: Row) -> Finding | None:
        return None if row.command is None else self._found.get(control_key(row.command))

    def is_caught(self, row: Row) -> bool:
        """Return whether the row is caught, and its control passed."""
        found, control = self.row(row), self.control(row)
        return bool(found and control and found.outcome == CAUGHT and control.outcome == PASSED)

    def keep(self, key: str, finding: Finding) -> None:
        """Add a finding and write the file, to which another run may have added findings."""
        self._found = {**self._read(), key: finding}
        found = {name: asdict(own) for name, own in sorted(self._found.items())}
        self._file.write_text(json.dumps(found, indent=1) + "\n")
