"""``python -m benchmarks.verdicts``: error rates and seconds of every rule on every link; writes its page.

Each finished cell is kept in a file, so a run that was stopped goes on where it was. What is published stands in
``counted.json``; ``--page`` makes the page from this file alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import commit
from benchmarks.verdicts.harder_links import ALL, HARDER
from benchmarks.verdicts.links import LINKS
from benchmarks.verdicts.page import COUNTED, counted, page, text_of
from benchmarks.verdicts.store import GATES, SEED, STORE, Part, as_cell, as_turns, count, gates_of, keep, kept
from benchmarks.verdicts.trials import STALL, cases
from benchmarks.verdicts.unseen import UNSEEN, WITHIN_PRIOR

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "error-rates.md"
QUICK_GATES = 20
FLAGGED_LINKS = ("quiet", "busy", "host", "s1", "s2")
TURNED_LINKS = ("quiet", "host", "s2", "s3", "drift", "unshaped")
TURNED = (0, 1, 5)


def parts() -> list[Part]:
    """Return everything that is counted."""
    found: list[Part] = [("cell", link, case, "pinet, 8 days") for link in ALL for case in ("0", "1", "5", "10")]
    found += [("cell", link, case, "pinet, 1 day") for link in ALL for case in ("0", "5", "10")]
    found += [("cell", link, case, "pinet, 2 days") for link in HARDER if "days" in link for case in ("0", "5")]
    found += [("cell", link, case, "pinet, 8 days") for link in LINKS for case in cases() if case not in "0 1 5 10"]
    found += [("cell", link, case, "soak, 8 days") for link in LINKS for case in ("0", "5", STALL)]
    found += [("cell", link, case, "pinet, 1 day") for link in WITHIN_PRIOR for case in ("0", "5", "10")]
    found += [("cell", link, case, "pinet, 8 days") for link in UNSEEN for case in ("0", "1", "5", "10")]
    found += [("flags", link, case, "soak") for link in FLAGGED_LINKS for case in ("0", STALL)]
    found += [("turns", link, str(by), known) for link in TURNED_LINKS for by in TURNED for known in ("yes", "no")]
    return found


def main() -> None:
    """Run what is missing on two processes. The same seed gives the same page."""
    parser = argparse.ArgumentParser(prog="benchmarks.verdicts", description=__doc__)
    parser.add_argument("--gates", type=int, default=GATES, help="gates a cell (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time; the next run goes on")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--store", type=Path, default=STORE, help="file of finished cells (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_GATES} gates a cell, printed and not written")
    parser.add_argument("--page", action="store_true", help=f"only write the page from {COUNTED.name}; count nothing")
    chosen = parser.parse_args()
    gates = QUICK_GATES if chosen.quick else chosen.gates
    if gates < 2:
        parser.error(f"--gates {gates} is too few; expected at least 2")
    if not chosen.page:
        found = _run(gates, chosen.seed, None if chosen.quick else chosen.store, chosen.seconds, chosen.processes)
        if len(found) < len(parts()):
            print(f"{len(found)} of {len(parts())} parts are finished; run the same command again")
            sys.exit(3)
        published = _published(found, chosen.seed)
        if chosen.quick:
            print(page(published))
            return
        COUNTED.write_text(text_of(published))
    PAGE.write_text(page(json.loads(COUNTED.read_text())))
    print(f"wrote {PAGE}")


def _run(gates: int, seed: int, store: Path | None, seconds: float, processes: int) -> dict[Part, Any]:
    """Return the results by part, as far as they were finished within the time."""
    known = kept(store, seed) if store is not None else {}
    found = {part: known[part, gates_of(part, gates)] for part in parts() if (part, gates_of(part, gates)) in known}
    with ProcessPoolExecutor(processes) as pool:
        waiting = {pool.submit(count, part, gates_of(part, gates), seed): part for part in parts() if part not in found}
        with suppress(TimeoutError):
            for finished in as_completed(waiting, seconds):
                part = waiting[finished]
                found[part] = finished.result()
                if store is not None:
                    keep(store, part, gates_of(part, gates), seed, found[part])
        pool.shutdown(cancel_futures=True)
    return found


def _published(found: dict[Part, Any], seed: int) -> dict[str, Any]:
    """Return the new content of ``counted.json``. What was counted by hand stays."""
    order = {part: index for index, part in enumerate(parts())}
    known = sorted(found, key=order.__getitem__)
    cells = [as_cell(found[part]) for part in known if part[0] == "cell"]
    turned = [as_turns(found[part]) for part in known if part[0] == "turns"]
    flagged = {(part[1], part[2]): found[part] for part in known if part[0] == "flags"}
    by_hand: dict[str, Any] = json.loads(COUNTED.read_text())
    return by_hand | counted(cells, turned, flagged, seed, _made())


def _made() -> str:
    """Return when, from which commit and on which machine the page is made."""
    machine = f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}"
    return f"on {date.today()}, commit {commit()} ({machine})"


if __name__ == "__main__":
    main()
