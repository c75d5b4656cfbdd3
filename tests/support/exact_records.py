"""Runs of exact gates as records: from the boots of ``tests.support.recorded_exact``, or from recorded boots."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pytest_pinet.exact.store import loads
from pytest_pinet.judge.exact import ExactLimits, judge_exact
from pytest_pinet.model.exact import ExactBoot, Function
from pytest_pinet.model.record.change import BuildRecord, TurnRecord
from pytest_pinet.model.record.result import SCHEMA_VERSION, ResultRecord, RunRecord
from pytest_pinet.report.change_head import change_head
from pytest_pinet.report.exact_text import EXACT_MEANING, exact_records
from tests.support.recorded_exact import BOOTS, GOOD

DATA = Path(__file__).parents[1] / "data/exact"
STARTED = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
SOURCES = {"gem_rx": "drivers/net/ethernet/cadence/macb_main.c:1302"}


def recorded(name: str) -> ExactBoot:
    """Return a boot of ``tests/data/exact``."""
    return loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


def build(name: str, key: str) -> BuildRecord:
    return BuildRecord(name=name, key=key, release=None, files=(), config=(), cmdline=(), options=(), sysctls=())


def records(name: str, limits: ExactLimits = ExactLimits()) -> list[ResultRecord]:  # noqa: B008
    """Return the results of the build with this name against the stock kernel."""
    return of_boots(GOOD, BOOTS[name], name, limits)


def of_boots(
    a: ExactBoot,
    b: ExactBoot,
    name: str,
    limits: ExactLimits = ExactLimits(),  # noqa: B008
    code: Mapping[str, Collection[str]] | None = None,
) -> list[ResultRecord]:
    """Return the results of these two boots. ``code`` are the functions with other code, if this is known."""

    def source_of(function: Function) -> str:
        return SOURCES.get(function.name, "")

    turns = [
        TurnRecord(number=number, side=side, started_s=0.0, seconds=42.0, running={}, trouble="")
        for number, side in ((1, "A"), (2, "B"))
    ]
    found = judge_exact(a, b, limits, code=code)
    return exact_records(("stock kernel", name), (a.identity, b.identity), found, turns, STARTED, source_of)


def run_of(results: list[ResultRecord], name: str) -> RunRecord:
    """Return the whole run with these results."""
    head = change_head(build("stock kernel", ""), build(name, "0123"), results, False, 2, exact=True)
    return RunRecord(
        schema_version=SCHEMA_VERSION,
        run="20261124-120000",
        lab="exact",
        figures="emulated",
        meaning=EXACT_MEANING,
        started=STARTED.isoformat(),
        results=tuple(results),
        change=head,
    )
