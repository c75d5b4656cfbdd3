"""``python -m benchmarks.regressions``: injects reported regressions; sees whether the suite `everyday` catches them.

Findings are kept in results.json: ``--resume`` runs only rows and controls that have none, and ``--kept`` runs nothing.
It needs root.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import commit
from benchmarks.regressions.bench import Bench, running
from benchmarks.regressions.page import PAGE, written
from benchmarks.regressions.run import CAUGHT, PASSED, Finding, folder_for, judge, judge_control, run
from benchmarks.regressions.store import Store, control_key
from benchmarks.regressions.table import HARDWARE, ROWS, Row
from pytest_pinet.errors import PinetError

HERE = Path(__file__).parent
# The bar of this project: so many of the 24 rows are caught.
LEAST_CAUGHT = 19


class Labs:
    """The running labs of this process, one for each lab file. They stop at the end."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[Path, Bench]] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="regressions-lab-"))
        self._stack = ExitStack()

    def __enter__(self) -> Labs:
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def running(self, name: str) -> tuple[Path, Bench]:
        """Return the copy of a lab file and its lab, which has no fault."""
        if name not in self._running:
            # Labs are known by the path of their file. Other runs of this machine have other domains, so that none
            # waits for another.
            file = self._folder / name
            file.write_text((HERE / name).read_text().replace('host: "*"', f'host{os.getpid()}: "*"'))
            self._running[name] = file, self._stack.enter_context(running(file))
        file, bench = self._running[name]
        bench.restore()
        return file, bench


def measure(row: Row, labs: Labs, store: Store, done: set[str], resume: bool) -> None:
    """Run a row with its symptom, and its control if no other row of ``done`` has run it."""
    if row.command is None:
        return
    for key, unchanged in ((control_key(row.command), True), (str(row.number), False)):
        if key in done or (resume and store.has(key)):
            continue
        _say(f"{row.number}: {'unchanged' if unchanged else row.symptom}, {row.command}")
        day, tree = datetime.now(UTC).date().isoformat(), commit()
        finding = replace(_run(row, labs, unchanged), day=day, commit=tree)
        done.add(key)
        store.keep(key, finding)
        _say(f"  {finding.outcome} after {finding.seconds:.0f} s. {finding.text}")


def _run(row: Row, labs: Labs, unchanged: bool) -> Finding:
    command = row.command
    assert command is not None
    folder = folder_for(str(row.number))
    try:
        file, bench = labs.running(command.lab)
        with row.unchanged(bench) if unchanged else row.injected(bench):
            said = run(command, file, unchanged, folder)
        return judge_control(said) if unchanged else judge(row, said)
    except PinetError as error:
        return Finding("lab error", "", 0.0, str(error).splitlines()[0])
    finally:
        _say(f"  files of the run: {folder}")


def check(store: Store) -> int:
    """Return the exit status: 0 if enough rows are caught and each control that ran passed.

    A row whose control did not run is not caught.
    """
    rows = [row for row in ROWS if row.where != HARDWARE]
    caught = [row for row in rows if store.is_caught(row)]
    absent = [row for row in rows if store.control(row) is None]
    bad = [row for row in rows if (found := store.control(row)) is not None and found.outcome != PASSED]
    print(f"{len(caught)} of {len(ROWS)} reported regressions are caught; the bar is {LEAST_CAUGHT}")
    for row in rows:
        if row not in caught:
            print(f"  row {row.number} is not caught: {_why_not(store.row(row), store.control(row))}")
    for row in absent + bad:
        print(f"  the control of row {row.number}: {_words(store.control(row))}")
    return int(len(caught) < LEAST_CAUGHT or bool(bad))


def _why_not(found: Finding | None, control: Finding | None) -> str:
    if found is None or found.outcome != CAUGHT:
        return _words(found)
    return f"its control {'did not run' if control is None else 'did not pass'}"


def _words(found: Finding | None) -> str:
    return "it did not run" if found is None else f"{found.outcome} ({found.text or found.verdict})"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen rows. Return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.regressions", description=__doc__)
    parser.add_argument("--row", type=int, action="append", metavar="N", help="run only this row (repeatable)")
    parser.add_argument("--resume", action="store_true", help="run only rows and controls that have no finding")
    parser.add_argument("--kept", action="store_true", help="run nothing; use what is kept")
    parser.add_argument("--check", action="store_true", help="exit with 1 if too few rows are caught")
    parser.add_argument("--publish", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--list", action="store_true", help="print the rows and run nothing")
    options = parser.parse_args(arguments)
    wrong = set(options.row or ()) - {row.number for row in ROWS}
    if wrong:
        parser.error(f"there is no row {min(wrong)}; rows: {', '.join(str(row.number) for row in ROWS)}")
    if options.list:
        for row in ROWS:
            print(f"{row.number:3}  {row.where:13}  {row.symptom}  {row.command or row.reason}")
        return 0
    store, done = Store(), set[str]()
    with Labs() as labs:
        for row in ROWS:
            if not options.kept and (not options.row or row.number in options.row):
                measure(row, labs, store, done, options.resume)
    if options.publish:
        PAGE.write_text(written(store))
    return check(store) if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
