"""Run the command of a row on a running lab, with its symptom or unchanged, and read what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
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
    """What a row or its control came to, with the sentence of the result that decided it.

    ``day`` is the day of the run (UTC) and ``commit`` the tree that ran; empty if it is not in a repository.
    """

    outcome: str
    verdict: str
    seconds: float
    text: str
    day: str = ""
    commit: str = ""


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
    results = _answer(status, output) if command.kind == "watch" else results_in(folder)
    return Said(status, tuple(results), time.monotonic() - started, "\n".join(output.splitlines()[-40:]))


def judge(row: Row, said: Said) -> Finding:
    """Return whether a run with the symptom caught it: a failed result that names the right metric."""
    named = [one for one in said.failures if re.search(row.names, one[2])]
    if said.status == FAIL and named:
        return Finding(CAUGHT, "fail", said.seconds, f"{named[0][0]}: {_sentence(named[0][2])}")
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
    return Finding(LAB_ERROR if lab else outcome, worst[1], said.seconds, f"{worst[0]}: {_sentence(worst[2])}")


def _sentence(text: str) -> str:
    """Return the whole text in one line, up to the last word that ends within 300 characters."""
    return textwrap.shorten(text, 300, placeholder="")


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


def results_in(folder: Path) -> Sequence[tuple[str, str, str]]:
    """Return the results of the latest run in a folder; none if it wrote no results."""
    file = folder / ".pinet" / "latest" / "results.json"
    if not file.exists():
        return []
    found: Mapping[str, Any] = json.loads(file.read_text())
    return [(r["id"], r["verdict"], _said(r)) for r in found["results"]]


def _said(result: Mapping[str, Any]) -> str:
    """Return the sentence of the verdict without its advice, and why each bad boot or flap is bad."""
    message = " ".join((result.get("message") or "").partition("\n  -> ")[0].split())
    bad = [note for note in result.get("notes") or () if " is bad: " in note]
    return "; ".join(filter(None, [message, result.get("finding"), *bad]))


def folder_for(name: str) -> Path:
    """Return a new folder in which a run keeps its files."""
    return Path(tempfile.mkdtemp(prefix=f"regressions-{name}-"))
