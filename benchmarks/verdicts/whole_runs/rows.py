"""The rows that are counted: a steady link, the table of issue 39, and our own; and when a verdict is wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median

from benchmarks.verdicts.trials import wilson
from benchmarks.verdicts.whole_runs.behaviours import KINDS, OWN, STEADY, TABLE
from benchmarks.verdicts.whole_runs.lab import SimulatedLab
from pytest_pinet.model.quantities import amount
from pytest_pinet.model.verdict import GOOD, Verdict

# So many gates share a baseline or a calibration. Then a new lab is drawn, so that its error is part of the result.
PER_LAB = 5
# A cell is missed if its whole interval (95 %, Wilson) lies above this (percent).
ALLOWED = 1.0
DOCUMENTED = 8
# The value of a link without a limit, or a baseline, is no value of the link if it lies so far below its level.
WITHIN_START = 0.9
NO_BASELINE, WITHIN, FULL = "no baseline", "within the start", "at the level"


@dataclass(frozen=True)
class Cell:
    """What is counted: ``how`` is gate, build, compare, no limit or accept. ``slower`` is the change in percent."""

    row: str
    kind: str
    slower: float
    how: str = "gate"
    profile: str = "standard"
    days: int = DOCUMENTED
    calibrated: bool = False

    @property
    def name(self) -> str:
        change = "unchanged" if not self.slower else f"{-self.slower:+g} %"
        words = {
            "gate": f"{change}, {self.profile}, baseline of {self.days} day{'s' * (self.days > 1)}",
            "build": f"gate of builds, {change}",
            "compare": f"compare, {change}",
            "no limit": "run without a limit",
            "accept": "accepted baseline",
        }
        return f"{self.kind}, {words[self.how]}{', calibrated' * self.calibrated}"

    @property
    def wrong(self) -> tuple[str, ...]:
        """The endings that are wrong. At 2 and 3 % slower, only "improved" would be."""
        if self.how in ("no limit", "accept"):
            return (WITHIN,)
        return tuple(map(str, (*GOOD,))) if self.slower >= 5 else (str(Verdict.FAIL), str(Verdict.IMPROVED))


@dataclass(frozen=True)
class Count:
    """The endings of the gates of a cell. ``apart`` are gates on a level that no run of the history has seen.

    ``median`` is of seconds of traffic; of a gate of builds, of its turns; of a comparison, of its pairs.
    """

    cell: Cell
    seed: int
    endings: Mapping[str, int]
    apart: Mapping[str, int]
    median: float
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def gates(self) -> int:
        return sum(self.endings.values())

    @property
    def wrong(self) -> int:
        return sum(self.endings.get(one, 0) for one in self.cell.wrong)

    @property
    def interval(self) -> tuple[float, float]:
        """The share of wrong verdicts in percent: its 95 % interval (Wilson 1927)."""
        return wilson(self.wrong, self.gates) if self.gates else (0.0, 100.0)

    @property
    def missed(self) -> bool:
        return self.interval[0] > ALLOWED

    def percent(self, *endings: Verdict) -> float:
        return 100 * sum(self.endings.get(str(one), 0) for one in endings) / max(self.gates, 1)


def cells() -> list[Cell]:
    """Return all cells, in the order of the rows."""
    return [*_of_steady(), *_of_table(), *_of_own()]


def _of_steady() -> Iterator[Cell]:
    (steady,) = STEADY
    yield from (Cell("0", steady, slower) for slower in (0, 1, 5, 10))
    yield from (Cell("0", steady, slower, "build", calibrated=known) for slower in (0, 10) for known in (False, True))
    yield from (Cell("0", steady, slower, "compare") for slower in (0, 5))


def _of_table() -> Iterator[Cell]:
    first, fading, throttled, drift, boots, days, *rest = TABLE
    for slower in (5, 0):
        yield from (Cell("1", first, slower), Cell("1", first, slower, profile="soak"))
    yield from (Cell("1", first, 5, calibrated=True), Cell("1", first, 5, days=1))
    yield from (Cell("1", first, 10), Cell("1", first, 1))
    yield from (Cell("2", fading, slower, profile=own) for slower in (5, 0) for own in ("standard", "soak"))
    yield from (Cell("3", throttled, slower, profile="full") for slower in (0, 1, 5))
    yield from (Cell("4", drift, slower) for slower in (5, 0))
    yield from (Cell("5", kind, slower) for kind in (boots, days) for slower in (0, 5))
    *unlike, tenth, fifth, hot, ports, start = rest
    for kind in unlike:
        yield from (Cell("6", kind, slower, days=days, calibrated=True) for days in (1, 3) for slower in (5, 0))
    yield from (Cell("7", kind, slower, "build") for kind in (tenth, fifth) for slower in (0, 10))
    yield from (Cell("8", hot, slower, "build", calibrated=known) for slower in (0, 5) for known in (False, True))
    yield from (Cell("9", ports, slower, "compare") for slower in (5, 0))
    yield from (Cell("10", start, 0, how) for how in ("no limit", "accept"))


def _of_own() -> Iterator[Cell]:
    for number, kind in enumerate(OWN, 1):
        row, profile = f"own {number}", "soak" if "soft temperature" in kind else "standard"
        yield from (Cell(row, kind, slower, profile=profile) for slower in (0, 1, 5))
        if kind.startswith(("one boot in seven", "a room")):
            yield from (Cell(row, kind, slower, "build") for slower in (0, 10))
        if kind.startswith(("EEE", "first connection")):
            yield from (Cell(row, kind, slower, "compare") for slower in (0, 5))


def count(cell: Cell, gates: int, seed: int) -> Count:
    """Count a cell. The same seed gives the same count, whatever else is counted."""
    endings: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    spent: list[float] = []
    words: dict[str, str] = {}
    of_lab = 1 if cell.how == "accept" else PER_LAB
    for number in range(gates):
        if number % of_lab == 0:
            lab = _lab(replace(cell, row="", slower=0), number // of_lab, seed)
            lab.source.seed(f"{seed}/{cell.name}/{number}")
        lab.new_day()
        one = _HOW[cell.how](lab, cell.slower)
        (apart if one.unseen else endings)[one.ending] += 1
        spent.append(one.spent)
        words.setdefault(one.ending, one.why)
    return Count(cell, seed, dict(endings), dict(apart), round(median(spent), 1), words)


@lru_cache(maxsize=600)
def _lab(cell: Cell, number: int, seed: int) -> SimulatedLab:
    """Return a lab for several gates. Cells that differ only in the change of the link share their labs."""
    lab = SimulatedLab(KINDS[cell.kind], random.Random(f"{seed}/{cell.name}/lab {number}"), cell.profile)
    if cell.calibrated:
        lab.calibrate()
    if cell.how == "gate":
        lab.make_baseline(cell.days)
    return lab


@dataclass(frozen=True)
class _Ended:
    """How a gate ended, and why. ``spent`` is as the median of `Count`, ``unseen`` as its gates apart."""

    ending: str
    spent: float
    why: str
    unseen: bool = False


def _gated(lab: SimulatedLab, slower: float) -> _Ended:
    lab.board.slower = slower
    record = lab.run()
    lab.board.slower = 0.0
    spent = record.traffic_seconds or 0.0
    if lab.baseline is None:
        return _Ended(NO_BASELINE, spent, "nothing to accept")
    drawn = {
        name: scope.drawn[name] for scope in (lab.board.day, lab.board.boot) for name in scope.drawn if name == "low"
    }
    unseen = any(all(seen.get(name) != value for seen in lab.seen) for name, value in drawn.items())
    return _Ended(str(record.verdict), spent, record.message, unseen)


def _built(lab: SimulatedLab, slower: float) -> _Ended:
    series = lab.gate_build(slower)
    (found,) = series.found.values()
    return _Ended(str(found.verdict), float(len(series.turns)), found.why)


def _compared(lab: SimulatedLab, slower: float) -> _Ended:
    record = lab.compare(slower)
    (found,) = record.directions.values()
    return _Ended(str(found.verdict), float(record.pairs), found.why)


def _without_limit(lab: SimulatedLab, _: float) -> _Ended:
    record = lab.run()
    (one,) = record.directions.values()
    is_low = one.goodput_bps < WITHIN_START * LEVEL_BPS
    ending = str(record.verdict) if record.verdict not in GOOD else WITHIN if is_low else FULL
    return _Ended(ending, record.traffic_seconds or 0.0, record.message)


def _accepted(lab: SimulatedLab, _: float) -> _Ended:
    lab.make_baseline(1)
    if lab.baseline is None:
        return _Ended(NO_BASELINE, 0.0, "nothing to accept")
    figure = lab.baseline.value
    ending = WITHIN if amount(figure) < WITHIN_START * LEVEL_BPS else FULL
    return _Ended(ending, float(len(lab.baseline.runs)), f"accepted {figure}")


# The level of the quiet recording on the simulated board.
LEVEL_BPS = 800e6
_HOW = {"gate": _gated, "build": _built, "compare": _compared, "no limit": _without_limit, "accept": _accepted}
