"""The rules of other tools, as functions on the same samples, with the same limit as ours. Each follows its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from benchmarks.verdicts.links import Session

LIMIT = 0.97


class Ending(StrEnum):
    """The end of a gate. FLAGGED is a pass with a flag, IMPROVED a pass above the baseline."""

    PASS = "pass"
    IMPROVED = "improved"
    FLAGGED = "flagged"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Gate:
    """The end of one gate, and its seconds of traffic."""

    ending: Ending
    seconds: float


def _seconds(rates: list[float]) -> list[float]:
    """Return one-second means, as ``iperf3 -i 1`` prints them."""
    return [fmean(rates[i : i + 10]) for i in range(0, len(rates) - 9, 10)]


def _one_sided(mean: float, baseline: float, seconds: float) -> Gate:
    return Gate(Ending.FAIL if mean < LIMIT * baseline else Ending.PASS, seconds)


def lnst(session: Session, baseline: float) -> Gate:
    """LNST 16.1: mean of 5 runs of 60 s, ``abs(diff) <= threshold``: two-sided."""
    mean = fmean(fmean(session.connection(60)) for _ in range(5))
    return Gate(Ending.PASS if abs(mean / baseline - 1) <= 1 - LIMIT else Ending.FAIL, 300)


def dts_one(session: Session, baseline: float) -> Gate:
    """DPDK DTS, single core forward: one sample of 5 s, one-sided."""
    return _one_sided(fmean(session.connection(5)), baseline, 5)


def dts_five(session: Session, baseline: float) -> Gate:
    """DPDK DTS with the mean of 5 samples of 5 s."""
    return _one_sided(fmean(fmean(session.connection(5)) for _ in range(5)), baseline, 25)


def kernel(session: Session, baseline: float) -> Gate:
    """The kernel's Iperf3Runner: 10 s, the first and last three one-second samples dropped, mean of four."""
    return _one_sided(fmean(_seconds(session.connection(10))[3:-3]), baseline, 10)


def fixed(session: Session, baseline: float) -> Gate:
    """One run of 10 s against the limit."""
    return _one_sided(fmean(session.connection(10)), baseline, 10)


def convention(session: Session, baseline: float) -> Gate:
    """``-t 65 -O 5``, the convention of published Raspberry Pi results: 70 s, the first 5 dropped."""
    return _one_sided(fmean(session.connection(70)[50:]), baseline, 70)


RIVALS: dict[str, Callable[[Session, float], Gate]] = {
    "LNST 5x60 s": lnst,
    "-t 65 -O 5": convention,
    "kernel 10 s": kernel,
    "fixed 10 s": fixed,
    "DTS 5 s": dts_one,
    "DTS 5x5 s": dts_five,
}
