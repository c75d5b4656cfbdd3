"""``python -m benchmarks.history``: the speed of the history with 10,000, 100,000 and a million records.

The records are 500 metrics in as many runs as needed. ``--url postgresql://...`` measures a server instead of a file.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pytest_pinet.history.history import open_history
from pytest_pinet.history.points import USUAL_LENGTH, Point, StoredRun
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.history.trends import trend
from pytest_pinet.model.record.measurement import ConnectionRecord
from pytest_pinet.model.verdict import Verdict

FIGURES = 500
SIZES = (10_000, 100_000, 1_000_000)
BEGINS = datetime(2020, 1, 1, tzinfo=UTC)
# A dashboard shows this many values of each metric.
SHOWN = 30
# The required speed: ingested records per second, seconds of a trend, seconds of a dashboard.
LEAST_INGEST, MOST_TREND_S, MOST_DASHBOARD_S = 5000, 0.1, 2.0


def runs(first: int, count: int) -> Iterator[tuple[StoredRun, list[Point]]]:
    """Yield runs of all metrics. Every tenth run has a new build."""
    chance = random.Random(first)
    for number in range(first, first + count):
        time_of_run = BEGINS + timedelta(hours=number)
        run = f"run-{number:08d}"
        build = {"uname": f"Linux 6.{number // 10}.0-v8+ #1 SMP", "driver": "bcmgenet", "firmware": None}
        points = [_point(run, time_of_run, figure, build, chance) for figure in range(FIGURES)]
        verdicts = {"pass": len(points)}
        stored = StoredRun(
            schema_version=1, id=run, run=run, lab="bench", figures="emulated", pinet="0.1.0", session=run,
            started=time_of_run.isoformat(), folder="/runs", verdicts=verdicts,
        )  # fmt: skip
        yield stored, points


def _point(run: str, moment: datetime, figure: int, build: dict[str, str | None], chance: random.Random) -> Point:
    goodput = 941e6 * (1 + chance.gauss(0, 0.004))
    combination = f"board{figure // 10}:nic{figure % 10}/pair"
    return Point(
        run,
        moment + timedelta(seconds=figure),
        "bench",
        f"{combination}/tcp-P1-tx",
        combination,
        "tx",
        goodput,
        Verdict.PASS,
        (goodput * 0.995, goodput * 1.005),
        885e6,
        False,
        941.5e6,
        "941.0 Mbit/s meets the limit 885.0 Mbit/s (+6.4 %)",
        build,
        {"dut": "10000000abcdef01"},
        {"dut": "3.18", "peer": "3.18"},
        "0123456789ab",
        run,
        True,
        ("raw/board_nic_pair-0123456789ab/client.json", "raw/board_nic_pair-0123456789ab/server.json"),
        "/runs",
        connections=tuple(ConnectionRecord("connection", goodput * share, 3.0) for share in (0.999, 1.0, 1.001)),
    )


def _ingest(url: str, new: Iterator[tuple[StoredRun, list[Point]]]) -> float:
    """Return the seconds to store all runs, in one transaction per run as sessions do.

    Making the points does not count.
    """
    store = HistoryStore.open(url, create=True)
    taken = sum(seconds(lambda one=one: store.add(*one)) for one in new)  # type: ignore[misc]
    store.close()
    return taken


def _read_all(url: str, last: int, judge: bool) -> float:
    with HistoryStore.open(url) as store:
        if judge:
            return seconds(lambda: [trend(one.id, one.lab, points) for one, points in store.latest(last)])
        return seconds(lambda: list(store.latest(last)))


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def measure(url: str, first: int, count: int) -> None:
    """Add runs, then measure trends and dashboards. Dashboards open their own connection, as a command does."""
    taken = _ingest(url, runs(first, count))
    records = (first + count) * FIGURES
    chance = random.Random(records)
    figures = [f"board{f // 10}:nic{f % 10}/pair/tcp-P1-tx" for f in chance.sample(range(FIGURES), 20)]
    trends, changes = [], []
    with open_history(url) as history:
        for figure in figures:
            trends.append(seconds(lambda figure=figure: history.points(figure, "bench", USUAL_LENGTH)))  # type: ignore[misc]
        for figure in figures:
            changes.append(seconds(lambda figure=figure: history.trend(figure)))  # type: ignore[misc]
    dashboards = [_read_all(url, SHOWN, False) for _ in range(3)]
    judged = _read_all(url, 200, True)
    size = f"{Path(url).stat().st_size / records:4.0f} B" if "://" not in url else "-"
    ingest = count * FIGURES / taken
    row = (
        f"{records:>9}  {ingest:>9,.0f}/s  {statistics.median(trends) * 1e3:>7.1f} ms  {max(trends) * 1e3:>7.1f} ms  "
        f"{statistics.median(changes) * 1e3:>9.1f} ms  {statistics.median(dashboards):>7.2f} s {judged:>7.2f} s  {size}"
    )
    good = ingest > LEAST_INGEST and max(trends) < MOST_TREND_S and statistics.median(dashboards) < MOST_DASHBOARD_S
    print(f"{row}  {'ok' if good else 'MISSED'}", flush=True)


def main() -> None:
    """Measure one history that grows through all sizes."""
    parser = argparse.ArgumentParser(prog="benchmarks.history", description=__doc__)
    parser.add_argument("--url", help="a history that does not exist yet (default: a temporary file)")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="records at the end")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = chosen.url or str(Path(folder) / "history.db")
        print(f"{FIGURES} results; targets: ingest > {LEAST_INGEST}/s, trend < 100 ms, dashboard < 2 s")
        print("  records     ingest   trend med   trend max  with changes  dashb.30   all 200   size")
        done = 0
        for size in SIZES:
            if size > chosen.most:
                break
            measure(url, done, size // FIGURES - done)
            done = size // FIGURES
    sys.stdout.flush()


if __name__ == "__main__":
    main()
