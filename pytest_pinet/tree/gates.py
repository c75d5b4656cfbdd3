"""Measures builds of commits for a bisection: each time by an ordinary ``pinet gate`` in a process of its own."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from pytest_pinet.errors import ConfigError, InvalidMeasurement, LabError
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.execution.shell import last_line
from pytest_pinet.history.results_file import read_whole_run
from pytest_pinet.judge.bisection import GOOD
from pytest_pinet.judge.turns import LEAST_BOOTS, Side
from pytest_pinet.model.record.change import ChangedDirectionRecord
from pytest_pinet.model.record.measurement import ConnectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.tree.search import SearchStep

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

    def ends(self, good: Path, bad: Path, commit: str) -> SearchStep:
        """Gate the build of the bad ``commit`` against the good one. Without ``figures``, they do not differ.

        On a lab, these few boots can leave it undecided, and more boots of both builds follow one by one.
        Raises ConfigError, LabError, InvalidMeasurement.
        """
        run = self._run(bad, good, () if self._exact else (f"--boots={LEAST_BOOTS}",))
        slower = _slower(run)
        if not slower and not self._exact:
            slower = sorted((one for one in _figures(run) if one.lost > 0), key=lambda one: -one.lost)[:1]
        return _step(run, slower, (GOOD, commit))

    def one(self, build: Path, good: Path, commit: str, figures: Sequence[str]) -> SearchStep:
        """Boot the build of a commit once. Raises ConfigError, LabError, and InvalidMeasurement without a value."""
        run = self._run(build, good, _NO_LIMITS) if self._exact else self._run(build, "accepted", ())
        found = [one for one in _figures(run) if one.name in figures]
        step = _step(run, found, (GOOD, commit))
        if len(found) < len(figures) or not step.values:
            raise InvalidMeasurement(step.why)
        # On exact boards, the first value is of the good build. Commits with the same bytes share their boots.
        return replace(step, values=step.values[-1:], boots=step.boots if self._exact else 1)

    def confirmed(self, good: Path, bad: Path, commits: tuple[str, str], figures: Sequence[str]) -> SearchStep:
        """Gate a commit against its parent as usual; ``commits`` are the parent and the commit.

        If the commit is not slower, the step has the values of ``figures``.
        """
        run = self._run(bad, good, ())
        step = _step(run, _slower(run) or [one for one in _figures(run) if one.name in figures], commits)
        return replace(step, gated=commits[1], verdict=run.change.verdict if run.change else None)

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
        # pytest ends with a summary, which names no cause.
        errors = [one.message for one in run.results if one.verdict is Verdict.ERROR] if run is not None else []
        said = errors[0].partition("\n")[0] if errors else last_line(log.read_text("utf-8", "replace"))
        why = said or f"exit code {code}"
        raise (ConfigError if code in _MISTAKES else LabError)(f"the gate of {build.name} failed: {why} (see {log})")


def _figures(run: RunRecord) -> list[_Figure]:
    return [
        _Figure(result, way, result.change.directions.get(way) if result.change else None)
        for result in run.results
        for way in result.directions
    ]


def _slower(run: RunRecord) -> list[_Figure]:
    """Return what B is slower in, the largest loss first."""
    found = [one for one in _figures(run) if one.change is not None and one.change.verdict is Verdict.FAIL]
    return sorted(found, key=lambda one: -one.lost)


def _step(run: RunRecord, figures: Sequence[_Figure], commits: tuple[str, str]) -> SearchStep:
    """Return what a gate gave. A value is the mean of the logarithms of all ``figures`` in one boot of a commit."""
    assert run.change is not None
    # Boots of several boards are not in one order.
    own = [one for one in figures if one.result.combination.dut == figures[0].result.combination.dut]
    boots = grouped(((number, side), value) for one in own for number, side, value in one.values())
    names = dict(zip(Side, commits, strict=True))
    values = tuple((names[side], fmean(logs)) for (_, side), logs in sorted(boots.items()))
    why = f"{own[0].name}: {own[0].change.why}" if own and own[0].change is not None else run.change.sentence
    driver = (own[0].result.build.get("driver") or "").partition(" ")[0] if own else ""
    return SearchStep(values, "", why, run.change.turns, figures=tuple(one.name for one in own), driver=driver)


def _logs(connections: Sequence[ConnectionRecord]) -> list[float]:
    rates = [one.level_bps or one.goodput_bps for one in connections if not one.excluded]
    return [math.log(rate) for rate in rates if rate > 0]
