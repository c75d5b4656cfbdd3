"""``python -m tools.soak``: run what is missing; both files are complete after each run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tools.soak.page import page
from tools.soak.plugin import Outcome
from tools.soak.process import DeadlineExceeded, adopt_orphans, run_pytest
from tools.soak.record import Runs, Statement, load, merged, save

ROOT = Path(__file__).parents[2]
TESTS = "tests/soak"
COLLECT_S = 120.0
INTERRUPTED = 130


class Soak:
    """The statements of a repository, and its two files, soak.json and soak.md in docs/contributing/."""

    def __init__(self, root: Path) -> None:
        self._root = root
        folder = root / "docs" / "contributing"
        self._json, self._page = folder / "soak.json", folder / "soak.md"
        self._logs = root / ".pinet" / "soak"
        self.statements = load(self._json)

    def save(self) -> None:
        """Write both files."""
        save(self._json, self.statements)
        self._page.write_text(page(self.statements))

    def collect(self) -> None:
        """Collect the statements of the tests. Each statement keeps its results."""
        with TemporaryDirectory() as folder:
            file, log = Path(folder) / "statements.json", self._logs / "collect.log"
            words = [TESTS, "--collect-only", "-q", f"--soak-statements={file}"]
            status = run_pytest(self._root, words, log, COLLECT_S)
            if status != pytest.ExitCode.OK:
                raise SystemExit(f"pytest cannot collect {TESTS} (status {status}):\n{log.read_text()}")
            self.statements = merged(json.loads(file.read_text()), self.statements)

    def forget(self, chosen: Sequence[Statement]) -> None:
        """Remove all runs of these statements."""
        self.statements = [replace(one, results=()) if one in chosen else one for one in self.statements]

    def run(self, test: str) -> bool:
        """Run this statement until it has all its runs. Return False if it cannot run here."""
        while not (one := next(one for one in self.statements if one.test == test)).complete:
            found = self._run_once(one)
            if found is None:
                return False
            self.statements = [one.with_runs(found) if other is one else other for other in self.statements]
            self.save()
        return True

    def _run_once(self, one: Statement) -> Runs | None:
        """Run one process and return its runs, or None if the test was skipped or could not run."""
        commit, started = _commit(self._root), time.monotonic()
        log = self._logs / f"{one.test.rpartition('/')[2].replace('::', '-')}-{one.ran + 1}.log"
        with TemporaryDirectory() as folder:
            file = Path(folder) / "outcome.json"
            words = [one.test, "-rA", f"--soak-outcome={file}", f"--soak-number={one.ran}"]
            try:
                status = run_pytest(self._root, words, log, 60 * one.minutes)
            except DeadlineExceeded:
                outcome = Outcome("failed", 1, 1, f"the test did not end within {one.minutes:g} minutes")
            else:
                broken = Outcome("broken", 0, 0, f"pytest ended with status {status}")
                outcome = Outcome(**json.loads(file.read_text())) if file.exists() else broken
        _show(one, outcome, time.monotonic() - started, log)
        if outcome.name in ("skipped", "broken"):
            return None
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        return Runs(commit, _machine(), date, outcome.runs, outcome.failures, outcome.message)


def _show(one: Statement, outcome: Outcome, seconds: float, log: Path) -> None:
    counted = f", {outcome.failures} of {outcome.runs} failed" if outcome.runs > 1 else ""
    number = f"{one.ran + 1} to {one.ran + outcome.runs}" if outcome.runs > 1 else f"{one.ran + 1}"
    print(f"  run {number} of {one.runs}: {outcome.name}{counted} ({seconds:.0f} s)", flush=True)
    if outcome.message:
        print(f"    {outcome.message}\n    {log}", flush=True)


def _commit(root: Path) -> str:
    """Return the current commit, with a note if files differ from it. The two generated files do not count."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False).stdout.strip()

    others = (".", ":!docs/contributing/soak.json", ":!docs/contributing/soak.md")
    name = git("rev-parse", "--short=7", "HEAD") or "no commit"
    return f"{name} with changes" if git("status", "--porcelain", "--", *others) else name


def _machine() -> str:
    """Return processors, memory and kernel series of this machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    series = ".".join(platform.release().split(".")[:2])
    model = ", ".join(sorted(names)) or platform.machine()
    return f"{os.cpu_count()} x {model}, {memory:.0f} GiB, Linux {series}, Python {platform.python_version()}"


def _raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Return 0 if all chosen statements held, 1 if one did not or could not run, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="tools.soak", description=__doc__)
    parser.add_argument(
        "-k",
        action="append",
        default=[],
        metavar="WORD",
        help="choose statements whose sentence or test contains WORD; repeatable",
    )
    parser.add_argument("--list", action="store_true", help="list the statements, and run none")
    parser.add_argument(
        "--page", action="store_true", help="generate the page from docs/contributing/soak.json, and run none"
    )
    parser.add_argument("--again", action="store_true", help="delete earlier runs of the chosen statements first")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: this one)")
    options = parser.parse_args()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, _raise_interrupt)
    adopt_orphans()
    try:
        return run(parser, options)
    except KeyboardInterrupt:
        print("interrupted: complete runs are kept, and the next call continues here", file=sys.stderr)
        return INTERRUPTED


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Execute the options."""
    soak = Soak(options.root.resolve())
    soak.collect()

    def chosen() -> list[Statement]:
        words = [word.lower() for word in options.k]
        texts = [(one, f"{one.test} {one.statement}".lower()) for one in soak.statements]
        return [one for one, text in texts if not words or any(word in text for word in words)]

    if not chosen():
        parser.error(f"no statement contains {' or '.join(options.k)}; --list shows all")
    if options.list:
        for one in chosen():
            print(f"{one.state}, {one.ran} of {one.runs} runs: {one.statement}\n    {one.test}")
        return 0
    if options.again and not options.page:
        soak.forget(chosen())
    soak.save()
    if options.page:
        return 0
    missing = []
    for number, one in enumerate(chosen(), start=1):
        if not one.complete:
            print(f"[{number}/{len(chosen())}] {one.statement}", flush=True)
            if not soak.run(one.test):
                missing.append(one)
    for one in chosen():
        if one.state == "not held":
            print(f"not held ({one.failures} of {one.ran} failed, {one.allowed} allowed): {one.statement}")
    for one in missing:
        print(f"could not be run here: {one.statement}")
    return 1 if any(one.state != "held" for one in chosen()) else 0


if __name__ == "__main__":
    sys.exit(main())
