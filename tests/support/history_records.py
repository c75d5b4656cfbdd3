"""Runs of one or a few metrics, as the history stores them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_pinet.history.points import Point, PointList, StoredRun
from pytest_pinet.history.records import points_of
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.limits import Threshold
from pytest_pinet.model.record.result import RunRecord
from tests.support.report_records import direction, result, run_record

FIGURE = "pi4b:onboard/pair/tcp-P1-tx"
BEGINS = datetime(2026, 9, 1, 2, tzinfo=UTC)


def day(
    number: int,
    mbps: float = 941.0,
    verdict: str = "pass",
    uname: str = "Linux 6.12.25-v8+ #1 SMP aarch64",
    combination: str = "pi4b:onboard/pair",
    limit: float | Threshold = 885e6,
    **more: Any,
) -> RunRecord:
    """Return the run of one night. ``more`` goes into its direction."""
    started = (BEGINS + timedelta(days=number)).isoformat()
    one = result(combination, {"tx": direction(mbps * 1e6, limit, verdict, **more)}).replace(
        build={"uname": uname, "driver": "bcmgenet", "firmware": None}, started=started, parameters="0123456789ab"
    )
    return run_record([one], run=f"night-{number}", started=started, session=f"{number:032x}")


def with_result(run: RunRecord, **values: object) -> RunRecord:
    """Return the run with these values in each of its results."""
    return run.replace(results=[one.replace(**values) for one in run.results])


def with_goodput(run: RunRecord, mbps: float) -> RunRecord:
    """Return the run with this goodput, and with everything else as it was."""
    (one,) = run.results
    return with_result(run, directions={"tx": one.directions["tx"].replace(goodput_bps=mbps * 1e6)})


def kept(records: Sequence[RunRecord]) -> list[tuple[StoredRun, list[Point]]]:
    return [points_of(record) for record in records]


def keep(records: Sequence[RunRecord], url: str = ".pinet/history.db") -> None:
    """Store runs in a history, which is made if there is none."""
    with HistoryStore.open(url, create=True) as store:
        store.add_all(kept(records))


def points_in(records: Sequence[RunRecord]) -> PointList:
    """Return the points of runs, in their order."""
    return PointList(point for _, points in kept(records) for point in points)


_WRITER = """
import sys
from tests.support.history_records import day, keep
first, url = int(sys.argv[1]), sys.argv[2]
for number in range(first, first + 20):
    keep([day(number), day(0)], url)
"""


def write_at_once(url: str) -> None:
    """Let four processes write 20 days each, and all of them day 0, into one history; check what is in it then."""
    root = Path(__file__).parents[2]
    running = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(first), url], cwd=root, stderr=subprocess.PIPE, text=True)
        for first in (100, 200, 300, 400)
    ]
    for process in running:
        _, said = process.communicate(timeout=180)
        assert process.returncode == 0, said
    store = HistoryStore.open(url)
    (figure,) = store.figures()
    points = store.points(FIGURE, "virtual", 1000)
    assert figure.points == len(store.runs()) == len(points) == 81
    # Each process has added runs that are older than runs of the others.
    ((_, packed),) = store.latest(1000)
    assert [point.run for point in packed] == [point.run for point in points]
    store.close()
