"""Run the command of a row on a running lab, with its symptom or unchanged, and read what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.regressions.table import EVERYDAY, Command, Row

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
# The longest run of a row. A row under 5 minutes is the aim; rows of boots may take longer.
DEADLINE_S = 1800.0
CAUGHT, MISSED, PASSED, FAILED = "caught", "missed", "passed", "failed"
NOT_RUN, LAB_ERROR = "not run", "lab error"
# Exit codes of pytest and `pinet gate`: everything passed, and something failed.
PASS, FAIL, UNDECIDED = 0, 1, 3
NO_TESTS = (4, 5)


@dataclass(frozen=True)
class Said:
    """What a run said: its exit code, its results (id, verdict, sentence), and its last lines of output."""

    status: int
    results: tuple[tuple[str, str, str], ...]
    seconds: float
    tail: str

    @property
    def failures(self) -> tuple[tuple[str, str, str], ...]:
        return tuple(one for one in self.results if one[1] == "fail")


@dataclass(frozen=True)
class Finding:
    """What a row or its control came to, with the sentence of the result that decided it."""

    outcome: str
    verdict: str
    seconds: float
    text: str


def run(command: Command, lab: Path, unchanged: bool, folder: Path) -> Said:
    """Run a command on a lab that runs already."""
    started = time.monotonic()
    argv = _argv(command, lab, unchanged, folder)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LG_", "PINET_"))}
    environment["PYTHONPATH"] = str(HERE.parents[1])
    try:
        done = subprocess.run(
            argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        status, output = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        status, output = 2, f"did not end within {DEADLINE_S:g} s"
    (folder / "output.txt").write_text(output)
    results = _answer(status, output) if command.kind == "watch" else _results(folder)
    return Said(status, tuple(results), time.monotonic() - started, "\n".join(output.splitlines()[-40:]))


def judge(row: Row, said: Said) -> Finding:
    """Return whether a run with the symptom caught it: a failed result that names the right metric."""
    named = [one for one in said.failures if re.search(row.names, f"{one[0]} {one[2]}", re.IGNORECASE)]
    if said.status == FAIL and named:
        return Finding(CAUGHT, "fail", said.seconds, f"{named[0][0]}: {_first(named[0][2])}")
    return _no_catch(said, MISSED)


def judge_control(said: Said) -> Finding:
    """Return whether an unchanged run passed."""
    if said.status == PASS and any(verdict != "skipped" for _, verdict, _ in said.results):
        return Finding(PASSED, "pass", said.seconds, "")
    return _no_catch(said, FAILED)


def _no_catch(said: Said, outcome: str) -> Finding:
    if said.status in NO_TESTS:
        return Finding(NOT_RUN, "", said.seconds, said.tail.splitlines()[-1] if said.tail else "no output")
    worst = next((one for one in said.results if one[1] not in ("pass", "skipped")), None) or next(
        iter(said.results), None
    )
    if worst is None:
        return Finding(LAB_ERROR if said.status else outcome, "", said.seconds, said.tail[-300:])
    lab = said.status == 2 or worst[1] == "error"
    return Finding(LAB_ERROR if lab else outcome, worst[1], said.seconds, f"{worst[0]}: {_first(worst[2])}")


def _first(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else ""


def _argv(command: Command, lab: Path, unchanged: bool, folder: Path) -> list[str]:
    # A link that is slow on purpose must not be excused by the other work of this machine.
    named = ("no_excuse", *(("faster",) if command.faster else ()))
    plugin = [word for name in named for word in ("-p", f"benchmarks.regressions.{name}")]
    test = ("--pyargs", EVERYDAY, "-k", command.test) if command.test else ()
    match command.kind:
        case "test":
            words = [sys.executable, "-m", "pytest", *plugin, "-p", "no:allure_pytest", *test]
            words += [f"--pinet-lab={lab}", f"--pinet-profile={command.profile}", "--pinet-history=off"]
            return [*words, f"--pinet-run-dir={folder}", f"--rootdir={folder}", *command.options]
        case "gate":
            build = HERE / "builds" / (command.unchanged if unchanged else command.build)
            words = [str(BIN / "pinet"), "gate", str(build), f"--lab={lab}", f"--profile={command.profile}"]
            words += [f"--against={HERE / 'builds' / command.against}"] if command.against else []
            return [*words, "--history=off", f"--run-dir={folder}", *command.options, *plugin, *test]
        case "watch":
            return [str(BIN / "pinet"), "watch", str(folder / "watch"), "dut", f"--lab={lab}", *command.options]
    raise ValueError(command.kind)


def _answer(status: int, output: str) -> Sequence[tuple[str, str, str]]:
    """Return what `pinet watch` says as a result. It exits with 3 if no event was seen and nothing is certain yet."""
    words = {PASS: "pass", FAIL: "fail", UNDECIDED: "pass"}
    return [("watch", words.get(status, "error"), " ".join(output.split()))]


def _results(folder: Path) -> Sequence[tuple[str, str, str]]:
    file = folder / ".pinet" / "latest" / "results.json"
    if not file.exists():
        return []
    found: Mapping[str, Any] = json.loads(file.read_text())
    return [
        (r["id"], r["verdict"], " ".join([r.get("message") or "", r.get("finding") or ""])) for r in found["results"]
    ]


def folder_for(name: str) -> Path:
    """Return a new folder in which a run keeps its files."""
    return Path(tempfile.mkdtemp(prefix=f"regressions-{name}-"))
