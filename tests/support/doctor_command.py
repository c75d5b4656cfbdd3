"""Runs ``pinet doctor`` and ``pinet discover`` as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.gate_project import BIN, PINET, GateLab

CHECKS = [
    "lab file",
    "coordinator",
    "exporter",
    "places free",
    "power read-back",
    "serial login",
    "ssh",
    "root rights",
    "power-on",
    "management",
    "iperf3 versions",
    "tools of metrics",
    "board and NIC",
    "network managers",
    "link speed and duplex",
    "switches",
    "switch port agrees",
    "cabling",
    "clock and throttling",
    "idle noise",
    "tolerance",
]
# All nodes share the processors of the test machine, which may be busy. This is not a fault.
BUSY_MACHINE = "busy while nothing is measured"

_SEVERITY = ["ok", "unknown", "not checked", "wrong"]


@dataclass(frozen=True)
class CommandAnswer:
    """The output of a command. Only doctor has ``findings``."""

    code: int
    output: str
    seconds: float
    errors: str

    @property
    def findings(self) -> list[dict[str, str | None]]:
        found: list[dict[str, str | None]] = json.loads(self.output)
        return found

    @property
    def wrong(self) -> dict[tuple[str, str | None], str]:
        """Return message and required action of all faults, by check and node."""
        return {
            (str(f["check"]), f["node"]): f"{f['message']} -> {f['act']}"
            for f in self.findings
            if f["status"] == "wrong" and BUSY_MACHINE not in str(f["message"])
        }

    @property
    def busy(self) -> bool:
        """Return whether the machine was too busy for an idle lab. ``wrong`` does not include this fault."""
        return any(BUSY_MACHINE in str(f["message"]) for f in self.findings)

    @property
    def checks(self) -> dict[str, str]:
        """Return the worst status of each check in order, ignoring a busy machine."""
        statuses: dict[str, str] = {}
        for finding in self.findings:
            check = str(finding["check"])
            status = "ok" if BUSY_MACHINE in str(finding["message"]) else str(finding["status"])
            statuses[check] = max(status, statuses.get(check, "ok"), key=_SEVERITY.index)
        return statuses

    def of(self, node: str) -> dict[str, str]:
        """Return the status of each check of one node, the worst if there are several."""
        statuses: dict[str, str] = {}
        for finding in self.findings:
            if finding["node"] == node:
                check, status = str(finding["check"]), str(finding["status"])
                statuses[check] = max(status, statuses.get(check, "ok"), key=_SEVERITY.index)
        return statuses


def pinet(lab: GateLab, *words: str, program: Sequence[str] = (PINET,), **environment: str) -> CommandAnswer:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LG_", "PINET_"))}
    started = time.monotonic()
    done = subprocess.run(
        [*program, *words],
        env={**kept, **lab.environment, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(done.stdout, done.stderr)  # noqa: T201  (pytest shows it when the test fails)
    assert "Traceback" not in done.stderr
    return CommandAnswer(done.returncode, done.stdout, time.monotonic() - started, done.stderr)


def doctor(lab: GateLab, *nodes: str, file: Path | None = None) -> CommandAnswer:
    return pinet(lab, "doctor", "--lab", str(file or lab.file), "--json", *nodes)


@contextmanager
def degraded(lab: GateLab, *words: str) -> Iterator[None]:
    lab.degrade(*words)
    try:
        yield
    finally:
        lab.restore(words[0])


@contextmanager
def held_by_alice(lab: GateLab, place: str) -> Iterator[None]:
    environment = {**os.environ, "LG_HOSTNAME": "otherhost", "LG_USERNAME": "alice"}
    argv = [str(BIN / "labgrid-client"), "-x", lab.environment["LG_COORDINATOR"], "-p", place]

    def run(command: str) -> None:
        subprocess.run([*argv, command], env=environment, check=True, timeout=30, capture_output=True)

    run("acquire")
    try:
        yield
    finally:
        run("release")


def copy_with(lab: GateLab, folder: Path, replacements: Sequence[tuple[str, str]]) -> Path:
    """Write a copy of the lab file without the launcher, as for an existing lab, and with some text replaced."""
    text = lab.text_without_launcher()
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = folder / "lab.yaml"
    file.write_text(text)
    return file
