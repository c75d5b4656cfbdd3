"""Points and series of one metric, as charts and pages get them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from pytest_pinet.config.baselines import AcceptedBaseline
from pytest_pinet.errors import Where
from pytest_pinet.history.points import LevelChange, Point, PointList
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.trends import FigureSeries

BEGIN = datetime(2026, 6, 1, tzinfo=UTC)
LIMIT, ORACLE = 885e6, 941.48e6


def dot(number: int, goodput: float | None, verdict: Verdict = Verdict.PASS, build: str = "", **more: object) -> Point:
    return Point(
        f"r{number:03}",
        BEGIN + timedelta(days=number),
        "virtual",
        "pi4b:onboard/pair/tcp-P1-tx",
        "pi4b:onboard/pair",
        "tx",
        goodput,
        verdict,
        interval=None if goodput is None else (goodput * 0.996, goodput * 1.004),
        limit=LIMIT,
        oracle=ORACLE,
        build={"uname": build or f"6.12.{number // 6}-v8+"},
        **more,  # type: ignore[arg-type]
    )


def moved(step: int, before: str, after: str) -> LevelChange:
    run, last = f"r{step:03}", f"r{step - 1:03}"
    builds = {"uname": before}, {"uname": after}
    return LevelChange(run, last, BEGIN + timedelta(days=step), 941e6, 860e6, *builds, run, run)


def baseline(lowest: float, goodput: float, highest: float) -> AcceptedBaseline:
    """Return an accepted baseline with these runs."""
    runs = (Bitrate(lowest), Bitrate(highest))
    return AcceptedBaseline("x", Bitrate(goodput), runs, {}, BEGIN.date(), "x", (), Where("baselines.yaml"))


def series(
    board: str = "pi4b", nic: str = "onboard", direction: str = "tx", runs: int = 60, step: int | None = None
) -> FigureSeries:
    """Return a steady series with 0.2 % noise. From run ``step`` on it is 8.6 % slower and below its limit."""
    noise = random.Random(f"{board}{nic}{direction}")
    dots = PointList()
    for number in range(runs):
        slow = step is not None and number >= step
        goodput = (860e6 if slow else 941e6) * (1 + noise.gauss(0, 0.002))
        dots.append(dot(number, goodput, Verdict.FAIL if slow else Verdict.PASS, emulated=True))
    changes = (moved(step, "6.12.5-v8+", "6.12.6-v8+"),) if step is not None else ()
    of, band = CombinationId(board, nic, "pair"), baseline(936e6, 940.8e6, 941.3e6)
    return FigureSeries(
        f"{of}/tcp-P1-{direction}", "virtual", dots, band, changes, combination=of, traffic="tcp-P1",
        direction=direction,
    )  # fmt: skip
