"""Measures builds of commits for a bisection: each time by an ordinary ``pinet gate`` in a process of its own."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pytest_pinet.errors import ConfigError, InvalidMeasurement, LabError
from pytest_pinet.execution.shell import last_line
from pytest_pinet.history.results_file import read_whole_run
from pytest_pinet.judge.turns import LEAST_BOOTS, Side
from pytest_pinet.model.record.change import ChangedDirectionRecord
from pytest_pinet.model.record.measurement import ConnectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import Verdict

# Without limits, one boot of an exact board is enough.
_NO_LIMITS = ("--instructions=1000000000", "--tolerance=49%")
# Exit codes of `pinet gate`: it gives an answer, or the user made a mistake.
_ANSWERS, _MISTAKES = (0, 1, 3), (4, 74)
# How long a gate may take to undo what it changed.
_UNDO_S = 600.0
# If this process is killed, the gate ends, too, and gives its boards back.
_PINET = (
    "setpriv", "--pdeathsig", "TERM", sys.executable, "-c", "from pytest_pinet.cli import main; main()", "gate",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """What one gate gave. ``values`` are of builds A and B, in the order of their boots.

    A value is a mean of logarithms over the ``figures``, which are the results that build B is slower in. ``driver`` is
    the driver of their NIC. ``sentence`` is the reason of the verdict.
    """

    values: tuple[tuple[Side, float], ...]
    boots: int
    verdict: Verdict
    sentence: str
    figures: tuple[str, ...] = ()
    driver: str = ""


@dataclass(frozen=True)
class _Figure:
    """One direction of one result. ``change`` is its difference in both builds, if both were measured."""

    result: ResultRecord
    way: str
    change: ChangedDirectionRecord | None

    @property
    def name(self) -> str:
        return f"{self.result.id} {self.way}"

    @property
    def lost(self) -> float:
        """The share that B is slower by."""
        return -(self.change.change or 0.0) if self.change is not None else 0.0

    def values(self) -> Iterator[tuple[int, Side, float]]:
        """Yield number, build and value of each boot."""
        exact, change = self.result.exact, self.result.change
        if exact is not None:
            for number, (side, one) in enumerate(((Side.A, exact.a), (Side.B, exact.b))):
                # Without counted instructions, the virtual time tells the same.
                yield number, side, math.log(one.instructions or one.virtual_ns / one.packets)
        elif change is not None:
            for turn in change.turns:
                if logs := _logs(turn.connections.get(self.way, ())):
                    yield turn.number, Side(turn.side), fmean(logs)
        elif logs := _logs(self.result.directions[self.way].connections):
            yield 0, Side.B, fmean(logs)


class Gates:
    """Runs gates with these words of the command line. ``folder`` keeps what the latest gate wrote."""

    def __init__(self, words: Sequence[str], folder: Path, exact: bool) -> None:
        self._words = [*words, *(["--exact"] if exact else [])]
        self._folder, self._exact = folder, exact

    def ends(self, good: Path, bad: Path) -> Measured:
        """Gate the bad build against the good one. Without ``figures``, they do not differ.

        On a lab, these few boots can leave it undecided, and more boots of both builds follow one by one.
        Raises ConfigError, LabError, InvalidMeasurement.
        """
        run = self._run(bad, good, () if self._exact else (f"--boots={LEAST_BOOTS}",))
        slower = _slower(run)
        if not slower and not self._exact:
            slower = sorted((one for one in _figures(run) if one.lost > 0), key=lambda one: -one.lost)[:1]
        return _measured(run, slower)

    def one(self, build: Path, good: Path, figures: Sequence[str]) -> Measured:
        """Boot a build once. Raises ConfigError, LabError, and InvalidMeasurement if it has no value."""
        run = self._run(build, good, _NO_LIMITS) if self._exact else self._run(build, "accepted", ())
        found = [one for one in _figures(run) if one.name in figures]
        measured = _measured(run, found)
        values = [value for side, value in measured.values if side is Side.B]
        if len(found) < len(figures) or not values:
            raise InvalidMeasurement(measured.sentence)
        # Commits with the same bytes share boots of exact boards.
        boots = measured.boots if self._exact else 1
        return Measured(((Side.B, values[-1]),), boots, measured.verdict, measured.sentence)

    def confirmed(self, good: Path, bad: Path, figures: Sequence[str]) -> Measured:
        """Gate a commit against its parent as usual. If it is not slower, the values are those of ``figures``."""
        run = self._run(bad, good, ())
        return _measured(run, _slower(run) or [one for one in _figures(run) if one.name in figures])

    def _run(self, build: Path, against: Path | str, more: Sequence[str]) -> RunRecord:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        log = self._folder / "gate.log"
        argv = [*_PINET, str(build), f"--against={against}", f"--run-dir={self._folder}", "--history=off"]
        with log.open("wb") as file:
            process = subprocess.Popen([*argv, *self._words, *more], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
            try:
                # A gate has deadlines for all that it waits for.
                code = process.wait()
            except KeyboardInterrupt:
                # The gate got the signal, too, and undoes what it changed.
                process.wait(_UNDO_S)
                raise
        run = read_whole_run(path) if (path := self._folder / ".pinet/latest/results.json").exists() else None
        if code in _ANSWERS and run is not None and run.change is not None:
            return run
        why = last_line(log.read_text("utf-8", "replace")) or f"exit code {code}"
        raise (ConfigError if code in _MISTAKES else LabError)(f"the gate of {build.name} failed: {why} (see {log})")


def _figures(run: RunRecord) -> list[_Figure]:
    found = []
    for result in run.results:
        for way in result.directions:
            found.append(_Figure(result, way, result.change.directions.get(way) if result.change else None))
    return found


def _slower(run: RunRecord) -> list[_Figure]:
    """Return what B is slower in, the largest loss first."""
    found = [one for one in _figures(run) if one.change is not None and one.change.verdict is Verdict.FAIL]
    return sorted(found, key=lambda one: -one.lost)


def _measured(run: RunRecord, figures: Sequence[_Figure]) -> Measured:
    assert run.change is not None
    # Boots of several boards are not in one order.
    own = [one for one in figures if one.result.combination.dut == figures[0].result.combination.dut]
    boots: dict[tuple[int, Side], list[float]] = {}
    for one in own:
        for number, side, value in one.values():
            boots.setdefault((number, side), []).append(value)
    values = tuple((side, fmean(logs)) for (_, side), logs in sorted(boots.items()))
    why = f"{own[0].name}: {own[0].change.why}" if own and own[0].change is not None else run.change.sentence
    driver = (own[0].result.build.get("driver") or "").partition(" ")[0] if own else ""
    return Measured(values, run.change.turns, run.change.verdict, why, tuple(one.name for one in own), driver)


def _logs(connections: Sequence[ConnectionRecord]) -> list[float]:
    rates = [one.level_bps or one.goodput_bps for one in connections if not one.excluded]
    return [math.log(rate) for rate in rates if rate > 0]
