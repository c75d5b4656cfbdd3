"""A node with stand-ins for /sys, /proc, ethtool, ip and tc. Its shell is real."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pytest_pinet.model.tuning import Tuned
from pytest_pinet.tuning.change import apply, check_effect
from pytest_pinet.tuning.registry import setting as find_setting
from pytest_pinet.tuning.setting import SettingPlace
from tests.support.local_shell import LocalShell

DEVICE = "eth0"
_SUDO = '#!/bin/sh\nshift\nexec "$@"\n'


class Bench:
    """A node with one device. ``undo`` reverts the applied settings, the last first."""

    def __init__(self, folder: Path, others: tuple[str, ...] = ()) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.journal = folder / "journal"
        self.root.mkdir()
        self.bin.mkdir()
        self.command("sudo", _SUDO)
        self.shell = LocalShell("node", {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"})
        self.place = SettingPlace(self.shell, DEVICE, "node:onboard", "node", others, str(self.root))
        self._undo: list[Callable[[], object]] = []

    def command(self, name: str, script: str) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def file(self, path: str, content: str) -> Path:
        """Write a file with one line below the root."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
        return file

    def device_file(self, path: str, content: str) -> Path:
        return self.file(f"/sys/class/net/{DEVICE}/{path}", content)

    def cpus(self, online: str) -> None:
        self.file("/sys/devices/system/cpu/online", online)

    def refusing_tee(self, why: str) -> None:
        """Make writes fail with this error, as a kernel would."""
        self.command("tee", f'#!/bin/sh\ncat >/dev/null; echo "tee: $1: {why}" >&2; exit 1\n')

    def apply(self, name: str, value: object) -> Tuned:
        setting = find_setting(name)
        tuned = apply(setting, self.place, setting.parse(value), self._register, str(self.journal))
        return check_effect(setting, self.place, tuned)

    def _register(self, _what: str, step: Callable[[], object], _node: str) -> None:
        self._undo.append(step)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

    @property
    def entries(self) -> list[str]:
        """Return the scripts of the journal, the oldest first."""
        return [path.read_text() for path in sorted(self.journal.glob("*"))] if self.journal.is_dir() else []
