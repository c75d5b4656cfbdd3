"""Runs of one or a few metrics, as the history stores them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pytest_pinet.history.points import Point, StoredRun
from pytest_pinet.history.records import points_of
from pytest_pinet.report.record import RunRecord
from tests.support.report_records import direction, result, run_record

FIGURE = "pi4b:onboard/pair/tcp-P1-tx"
BEGINS = datetime(2026, 9, 1, 2, tzinfo=UTC)


def day(
    number: int,
    mbps: float = 941.0,
    verdict: str = "pass",
    uname: str = "Linux 6.12.25-v8+ #1 SMP aarch64",
    combination: str = "pi4b:onboard/pair",
    **more: Any,
) -> RunRecord:
    """Return the run of one night. ``more`` goes into its direction."""
    started = (BEGINS + timedelta(days=number)).isoformat()
    one = result(combination, {"tx": direction(mbps * 1e6, 885e6, verdict, **more)})
    one["build"] = {"uname": uname, "driver": "bcmgenet", "firmware": None}
    one["started"] = started
    one["parameters"] = "0123456789ab"
    record: Any = run_record([one])
    return record | {"run": f"night-{number}", "started": started, "session": f"{number:032x}"}  # type: ignore[no-any-return]


def kept(records: Sequence[RunRecord]) -> list[tuple[StoredRun, list[Point]]]:
    return [points_of(record) for record in records]
