"""The verdicts, the tables of their words and exit codes, and what a gate returns with one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction


class Verdict(StrEnum):
    """The verdict on a result. Only PASS, MARGINAL and IMPROVED are good. Only FAIL blames the change under test."""

    PASS = "pass"
    MARGINAL = "marginal"
    IMPROVED = "improved"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    ERROR = "error"
    SKIPPED = "skipped"


GOOD = (Verdict.PASS, Verdict.MARGINAL, Verdict.IMPROVED)

# Worst first: the order of tables, and the order that gives a result with several directions its verdict.
SEVERITY: tuple[Verdict, ...] = (
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.INVALID,
    Verdict.INCONCLUSIVE,
    Verdict.MARGINAL,
    Verdict.IMPROVED,
    Verdict.PASS,
    Verdict.SKIPPED,
)


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the worst verdict; SKIPPED if there is none."""
    return min(verdicts, key=SEVERITY.index, default=Verdict.SKIPPED)


class GateWords(NamedTuple):
    """What a gate of two builds says of a verdict: of one metric, of the whole change, and its exit code."""

    metric: str
    change: str
    exit: int


# A gate has only these verdicts. A FAIL of a build that does not boot, breaks, or brings its NIC up wrongly has the
# kind of this finding as its word.
GATE: dict[Verdict, GateWords] = {
    Verdict.FAIL: GateWords("regression", "regression", 1),
    Verdict.ERROR: GateWords("lab error", "lab error", 2),
    Verdict.INCONCLUSIVE: GateWords("undecided", "undecided", 3),
    Verdict.IMPROVED: GateWords("improved", "pass", 0),
    Verdict.PASS: GateWords("unchanged", "pass", 0),
}


# What the verdict on B says of B in comparison with A.
COMPARED: dict[Verdict, str] = {
    Verdict.FAIL: "slower",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.IMPROVED: "faster",
    Verdict.PASS: "same",
}
# For `git bisect run` this exit code means "this commit cannot be tested".
SKIP = 125
# This exit code ends `git bisect run`: no commit can be judged on this machine.
STOP = 131


def gated(verdict: Verdict) -> Verdict:
    """Return the verdict of GATE with the same meaning for a change."""
    if verdict is Verdict.MARGINAL:
        return Verdict.PASS
    return verdict if verdict in GATE else Verdict.INCONCLUSIVE


def change_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a change from the verdicts on its metrics: PASS, FAIL, ERROR or INCONCLUSIVE.

    PASS: it may be merged. A certain regression counts, whatever else went wrong. Without a metric, the change is
    undecided.
    """
    found = gated(worst(list(verdicts)))
    return Verdict.PASS if found in GOOD else found


@dataclass(frozen=True)
class Result:
    """The result of a gate call.

    ``verdict`` is pass, marginal, improved or skipped (no limit applied): every other verdict ends the test. ``reason``
    says why in one sentence. ``goodput`` is the payload at the receiver in bit/s by one-way direction (tx, rx), seen
    from the device under test; of several flows it is the sum. ``result["tx"]`` is the same as
    ``result.goodput[Direction.TX]`` and raises KeyError for a direction that was not measured. ``metric_id`` is the
    ``id`` of this result in results.json and equal in every run.
    """

    metric_id: str
    verdict: Verdict
    reason: str
    goodput: Mapping[Direction, Bitrate]

    def __getitem__(self, direction: Direction | str) -> Bitrate:
        try:
            return self.goodput[Direction(direction)]
        except (KeyError, ValueError):
            known = ", ".join(str(way) for way in self.goodput) or "none"
            raise KeyError(f"{self.metric_id} has no goodput in direction {str(direction)!r}; it has {known}") from None


@dataclass(frozen=True)
class TrafficResult(Result):
    """The result of ``gate.tcp`` and ``gate.udp``.

    ``flows`` is the goodput of each of several flows by name (``pi3b-1:onboard>pi4b-1:onboard``). ``fairness`` is
    Jain's index (0 to 1) over the ratios of each flow's goodput to its fair rate. With a single flow, ``flows`` is
    empty and ``fairness`` is None.
    """

    flows: Mapping[str, Bitrate]
    fairness: float | None


@dataclass(frozen=True)
class HttpResult(Result):
    """The result of ``gate.http``: ``goodput`` is the payload of good responses, ``requests_per_s`` their rate."""

    requests_per_s: float


@dataclass(frozen=True)
class LadderResult(Result):
    """The result of ``gate.udp_ladder``: ``knee`` is the highest held rate (per stream), ``goodput`` that at it."""

    knee: Bitrate


@dataclass(frozen=True)
class ValuesResult(Result):
    """The result of ``gate.transactions`` and the like. It has no goodput.

    ``values`` has the median of each value by its name (``transactions``, ``p90``), in its SI unit.
    """

    values: Mapping[str, float]


@dataclass(frozen=True)
class PingResult(ValuesResult):
    """The result of ``gate.ping``: round trips in seconds and the share (0 to 1) of lost packets. It has no goodput.

    ``mdev_s`` is the mean deviation, None if the tool does not print it.
    """

    @property
    def loss(self) -> float:
        return self.values["loss"]

    @property
    def mean_s(self) -> float:
        return self.values["latency"]

    @property
    def min_s(self) -> float:
        return self.values["rtt_min"]

    @property
    def max_s(self) -> float:
        return self.values["rtt_max"]

    @property
    def mdev_s(self) -> float | None:
        return self.values.get("rtt_mdev")


@dataclass(frozen=True)
class KselftestResult(Result):
    """The result of ``gate.kselftest``: the names of the parts that passed and that were skipped. It has no goodput."""

    passed: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class ComparisonResult(Result):
    """The result of ``gate.compare``: ``goodput`` is that of state B, ``goodput_of_a`` that of state A, by direction.

    ``verdict`` is ``pass``, or ``improved`` if B is faster. ``change`` is B over A minus one, without drift (-0.02: B
    is 2 % slower); None if it is not known. ``pairs`` is the number of compared pairs of connections. ``error_rate`` (0
    to 1) is the accepted probability of a wrong verdict.
    """

    goodput_of_a: Mapping[Direction, Bitrate]
    change: Mapping[Direction, float | None]
    pairs: int
    error_rate: float


@dataclass(frozen=True)
class ExactResult(Result):
    """One window of ``exact_gate()``: ``goodput`` is that of build B in virtual time, ``goodput_of_a`` that of build A.

    ``instructions`` and ``instructions_of_a`` are all instructions for each packet (of traffic ``request``: for each
    answer), None if they were not counted. ``functions`` are the functions that changed (``gem_rx [macb]``) with their
    instructions in A and B, the most telling first. ``packets_per_second`` (of requests: answers) is in virtual time.
    """

    goodput_of_a: Mapping[Direction, Bitrate]
    instructions: float | None
    instructions_of_a: float | None
    packets_per_second: float
    packets_per_second_of_a: float
    functions: Mapping[str, tuple[float, float]]
