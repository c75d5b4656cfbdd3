"""The connection to one watched board: it is made again after each loss, and each boot is noticed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pytest_pinet.evidence import vitals
from pytest_pinet.evidence.vitals import REBOOT, SILENCE, BoardWatch, LinkWatch, Sign, kernel_sign, parse
from pytest_pinet.execution.shell import Process
from pytest_pinet.lab.node.shutdown import BOOT_ID
from pytest_pinet.lab.ssh import SshShell

# The script at the board is started again after this time, so that no output grows for days.
RENEW_S = 3600.0
LIFETIME_S = RENEW_S + 120.0
# A board is silent if its samples stay away for so long.
SILENT_S = 30.0
RETRY_S = 5.0
_STAMP = re.compile(r"\[ *(\d+\.\d+)\]")


class WatchedBoard:
    """Reads the samples of one board. ``shell`` runs commands there; ``devices`` are those to watch.

    ``boot`` is what identifies the last known boot, empty if no boot is known.
    """

    def __init__(self, name: str, shell: SshShell, devices: Sequence[str], boot: str = "") -> None:
        self.name = name
        self.watch = BoardWatch(name, devices)
        self.boot = boot
        self.reads_log: bool | None = None
        # The time of the last sample; None before the first one.
        self.heard_s: float | None = None
        self.is_silent = False
        self._shell = shell
        self._devices = devices
        self._process: Process | None = None
        self._renew_s = self._retry_s = 0.0
        # Messages up to this stamp of the kernel's log are known.
        self._known_s: float | None = None
        self._uptime_s: float | None = None
        self._held: list[str] = []

    def poll(self, now_s: float, peers: Mapping[str, Sequence[LinkWatch]]) -> list[Sign]:
        """Return what the samples show that have arrived since the last call. Never blocks."""
        signs = [sign for line in self._lines(now_s) for sign in self._line(line, now_s, peers)]
        if self._process is None and now_s >= self._retry_s:
            self._start(now_s)
        elif self._process is not None and now_s >= self._renew_s:
            self.stop()
            self._start(now_s)
        elif self._process is not None and self._process.poll() is not None:
            # ssh has lost the board.
            self.stop()
            self._retry_s = now_s + RETRY_S
        return signs

    def silence(self, now_s: float) -> list[Sign]:
        """Return that the board has become silent, if it has."""
        if self.heard_s is None or self.is_silent or now_s - self.heard_s < SILENT_S:
            return []
        self.is_silent = True
        return [Sign(self.heard_s, SILENCE, f"{self.name} does not answer over ssh", part=self.name)]

    def stop(self) -> None:
        """End the script at the board."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def _start(self, now_s: float) -> None:
        self._process = self._shell.spawn(vitals.command(self._devices, LIFETIME_S, BOOT_ID))
        self._renew_s = now_s + RENEW_S

    def _lines(self, now_s: float) -> list[str]:
        return self._process.lines() if self._process is not None else []

    def _line(self, line: str, now_s: float, peers: Mapping[str, Sequence[LinkWatch]]) -> list[Sign]:
        word, _, rest = line.partition(" ")
        if word == "boot":
            before, self.boot = self.boot, rest.strip()
            if before != self.boot:
                self.watch.begin_anew()
                # Of a later boot, all messages are new.
                self._known_s = 0.0 if before else None
                return [Sign(now_s, REBOOT, f"{self.name} was booted", over=True)] if before else []
        elif word == "log":
            self.reads_log = rest == "yes"
        elif word == "kernel":
            return self._kernel(rest, now_s)
        elif samples := parse(line):
            self._uptime_s = samples[-1].uptime_s
            self._known_s = self._uptime_s if self._known_s is None else self._known_s
            held, self._held = self._held, []
            return [*self._heard(now_s), *(sign for one in held for sign in self._kernel(one, now_s)),
                    *self.watch.add(samples, now_s, peers)]  # fmt: skip
        return []

    def _heard(self, now_s: float) -> list[Sign]:
        was, self.is_silent, self.heard_s = self.is_silent, False, now_s
        return [Sign(now_s, SILENCE, f"{self.name} answers again", over=True, part=self.name)] if was else []

    def _kernel(self, text: str, now_s: float) -> list[Sign]:
        if self._known_s is None or self._uptime_s is None:
            # The first sample tells which messages are older than the watch.
            self._held.append(text)
            return []
        stamp = _STAMP.search(text)
        if stamp is None or (at := float(stamp[1])) <= self._known_s:
            return []
        self._known_s = at
        sign = kernel_sign(text, now_s - max(self._uptime_s - at, 0.0))
        return [sign] if sign is not None else []
