"""Half a year of one figure, as charts and pages get it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.series import Dot, Series, Shift

BEGIN = datetime(2026, 6, 1, tzinfo=UTC)
LIMIT, ORACLE = 885e6, 941.48e6


def dot(number: int, goodput: float | None, verdict: Verdict = Verdict.PASS, build: str = "", **more: object) -> Dot:
    interval = None if goodput is None else (goodput * 0.996, goodput * 1.004)
    return Dot(
        f"r{number:03}",
        BEGIN + timedelta(days=number),
        goodput,
        verdict,
        interval,
        LIMIT,
        ORACLE,
        build or f"6.12.{number // 6}-v8+",
        **more,  # type: ignore[arg-type]
    )


def series(
    board: str = "pi4b", nic: str = "onboard", direction: str = "tx", runs: int = 60, step: int | None = None
) -> Series:
    """Steady with 0.2 % of noise; from run ``step`` on 8.6 % slower and below its limit."""
    noise = random.Random(f"{board}{nic}{direction}")
    dots = []
    for number in range(runs):
        slow = step is not None and number >= step
        goodput = (860e6 if slow else 941e6) * (1 + noise.gauss(0, 0.002))
        dots.append(dot(number, goodput, Verdict.FAIL if slow else Verdict.PASS, emulated=True))
    shifts = [Shift(f"r{step:03}", 941e6, 860e6, "6.12.5-v8+", "6.12.6-v8+")] if step is not None else []
    figure = f"{board}:{nic}/pair/tcp-P1-{direction}"
    return Series(figure, board, nic, "pair", "tcp-P1", direction, dots, shifts, (936e6, 940.8e6, 941.3e6), "virtual")
