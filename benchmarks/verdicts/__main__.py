"""``python -m benchmarks.verdicts``: error rates and seconds of every rule on every link; writes its page.

Each finished cell is kept in a file, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.verdicts.faults import shown
from benchmarks.verdicts.harder_links import ALL, HARDER
from benchmarks.verdicts.links import LINKS
from benchmarks.verdicts.page import UNSEEN, page
from benchmarks.verdicts.rivals import RIVALS, Ending
from benchmarks.verdicts.store import FEWER, GATES, SEED, STORE, Part, as_cell, as_turns, count, gates_of, keep, kept
from benchmarks.verdicts.trials import OURS, STALL, Cell, cases, ideal, trial
from benchmarks.verdicts.unseen import UNSEEN as UNSEEN_LINKS
from benchmarks.verdicts.unseen import WITHIN_PRIOR

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "error-rates.md"
QUICK_GATES = 20
FLAGGED_LINKS = ("quiet", "busy", "host", "s1", "s2")
TURNED_LINKS = ("quiet", "host", "s2", "s3", "drift", "unshaped")
TURNED = (0, 1, 5)


def parts() -> list[Part]:
    """Return everything that the page shows."""
    found: list[Part] = [("cell", link, case, "pinet, 8 days") for link in ALL for case in ("0", "1", "5", "10")]
    found += [("cell", link, case, "pinet, 1 day") for link in ALL for case in ("0", "5", "10")]
    found += [("cell", link, case, "pinet, 2 days") for link in HARDER if "days" in link for case in ("0", "5")]
    found += [("cell", link, case, "pinet, 8 days") for link in LINKS for case in cases() if case not in "0 1 5 10"]
    found += [("cell", link, case, "soak, 8 days") for link in LINKS for case in ("0", "5", STALL)]
    found += [("cell", link, case, rule) for link in LINKS for case in ("0", "1", "5", "10") for rule in RIVALS]
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
    parser.add_argument("--partial", action="store_true", help="write the page even if cells are missing")
    parser.add_argument("--unseen", action="store_true", help="count the cells of the links of `unseen` instead")
    chosen = parser.parse_args()
    gates = QUICK_GATES if chosen.quick else chosen.gates
    if gates < 2:
        parser.error(f"--gates {gates} is too few; expected at least 2")
    if chosen.unseen:
        lines = _unseen(gates, chosen.seed, chosen.processes)
        if not chosen.quick:
            UNSEEN.write_text("\n".join(lines) + "\n")
        return
    found = _run(gates, chosen.seed, None if chosen.quick else chosen.store, chosen.seconds, chosen.processes)
    if len(found) < len(parts()) and not chosen.partial:
        print(f"{len(found)} of {len(parts())} parts are finished; run the same command again")
        sys.exit(3)
    text = _page(found, gates, chosen.seed)
    if chosen.quick:
        print(text)
    else:
        PAGE.write_text(text)
        print(f"wrote {PAGE}")


def _unseen(gates: int, seed: int, processes: int) -> list[str]:
    """Count the cells of the unseen links. Return a line for each, and print it when it is there."""
    cells = [(link, case, "pinet, 1 day") for link in WITHIN_PRIOR for case in ("0", "5", "10")]
    cells += [(link, case, "pinet, 8 days") for link in UNSEEN_LINKS for case in ("0", "1", "5", "10")]
    lines = [f"seed {seed}, {_made()}"]
    with ProcessPoolExecutor(processes) as pool:
        work = [(*cell, gates_of(("cell", *cell), gates), seed) for cell in cells]
        for cell in pool.map(_unseen_cell, work):
            low, high = cell.wrong_interval
            known = ideal(cell.link, cell.case, OURS[cell.rule][1])
            lines.append(
                f"{cell.link:24} -{cell.case:2} %  {cell.rule:13}  wrong {cell.wrong:4.1f} % ({low:.1f} to {high:.1f})"
                f"  inconclusive {cell.percent(Ending.INCONCLUSIVE):5.1f} % ({known:.0f})  median {cell.median_s:.0f} s"
                f"  {cell.gates} gates"
            )
            print(lines[-1], flush=True)
    return lines


def _unseen_cell(work: tuple[str, str, str, int, int]) -> Cell:
    return trial(*work)


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


def _page(found: dict[Part, Any], gates: int, seed: int) -> str:
    cells = [as_cell(one) for part, one in found.items() if part[0] == "cell"]
    turned = [as_turns(one) for part, one in found.items() if part[0] == "turns"]
    flagged = {(part[1], part[2]): one for part, one in found.items() if part[0] == "flags"}
    order = {part: index for index, part in enumerate(parts())}
    cells.sort(key=lambda cell: order["cell", cell.link, cell.case, cell.rule])
    missing = sum(part[0] == "cell" and part[3] in OURS and part not in found for part in parts())
    return page(cells, turned, flagged, shown(seed), max(gates // FEWER, 2), seed, _made(), missing)


def _made() -> str:
    """Return when, from which commit and on which machine the page is made."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty= and changes"],
        cwd=PAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    machine = f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}"
    return f"on {date.today()}, commit {commit} ({machine})"


if __name__ == "__main__":
    main()
