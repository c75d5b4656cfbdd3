"""An open loss, and one that a user acknowledged."""

from __future__ import annotations

from datetime import UTC, date, datetime

from pytest_pinet.config.baselines import Acknowledgement
from pytest_pinet.errors import Where
from pytest_pinet.history.losses import BestMonth, Loss, LossState, MetricLevel
from pytest_pinet.history.points import LevelChange
from pytest_pinet.model.quantities import Bitrate

TODAY = date(2026, 11, 16)
OPEN, KNOWN = "pi4b:onboard/pair/tcp-P1-rx", "cm4:i226v/pair/tcp-P10-tx"
ANN = Acknowledgement(
    KNOWN, "Ann Example", date(2026, 12, 31), "https://lore.kernel.org/r/20261012", Bitrate.mbps(2270), TODAY, Where("")
)


def change(kernels: str) -> LevelChange:
    begin = datetime(2026, 7, 19, 1, tzinfo=UTC)
    return LevelChange("run", "before", begin, 1.0, 0.9, {}, {}, "run", "run", (f"kernel {kernels}",))


def opened(**more: object) -> Loss:
    loss = {"state": LossState.OPEN, "change": change("6.12.39-v8+ -> 6.12.40-v8+")} | more
    return Loss(OPEN, "bench", "run", datetime(2026, 7, 19, 1, tzinfo=UTC), 941e6, 895.8e6, **loss)  # type: ignore[arg-type]


def losses() -> list[MetricLevel]:
    """Return the levels of a metric with an open loss, and of one whose loss is known until the end of the year."""
    known = Loss(
        KNOWN, "bench", "run", datetime(2026, 10, 8, 1, tzinfo=UTC), 2.34e9, 2.271e9, LossState.ACKNOWLEDGED,
        change("6.12.66-v8+ -> 6.12.67-v8+"), ANN,
    )  # fmt: skip
    return [
        MetricLevel(known.now, -0.0295, BestMonth("2026-09", 2.34e9), known),
        MetricLevel(895.8e6, -0.0478, BestMonth("2026-06", 941e6), opened()),
    ]
