"""Joins the runs of shards of one gate, or of several labs, to one run with one answer.

How the error rate holds for the whole change, and which verdicts stand: docs/how-to/gate-a-change.md. The record of a
value has its ``error``, the smallest rate at which it would still be slower. For a log likelihood ratio ``L`` this is
``m / (1 + exp(L))``: Wald's threshold ``ln((1 - e) / e)`` solved for ``e``, times the ``m`` looks that share the rate
(``LOOKS`` in judge/turns.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.record.change import EXACT, ChangedCostRecord, ChangedDirectionRecord, ChangeHeadRecord
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import SCHEMA_VERSION, MergedRunRecord, ResultRecord, RunRecord
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict, worst
from pytest_pinet.report.change_head import change_head, with_note
from pytest_pinet.version import __version__

Changed = TypeVar("Changed", ChangedDirectionRecord, ChangedCostRecord)
# A sum of rounded error rates may exceed the whole by this.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Shard:
    """One run. ``where`` names its file in messages; ``folder`` is its folder in the merged run folder."""

    run: RunRecord
    where: str
    folder: str


def merged_run(shards: Sequence[Shard], error_rate: float) -> RunRecord:
    """Return one run, with the name of the earliest. Raises ConfigError if the runs are not of one gate."""
    _check(shards)
    runs = [shard.run for shard in shards]
    labs = list(dict.fromkeys(run.lab for run in runs))
    wanted = max(run.shards or 1 for run in runs)
    stand = len(runs) == 1 or all(_is_within(run, len(runs), error_rate) for run in runs)
    changes = [one.change for run in runs for one in run.results if one.exact is None]
    values = sum(len(change.directions) + len(change.costs or ()) for change in changes if change is not None)
    results = []
    for shard in shards:
        for result in shard.run.results:
            judged = result if stand else _rejudged(result, values, error_rate, len(runs))
            results.append(_of_lab(judged, shard, shard.run.lab if len(labs) > 1 else ""))
    return RunRecord(
        schema_version=SCHEMA_VERSION,
        run=min(runs, key=lambda run: (run.started, run.run)).run,
        lab="+".join(labs),
        lab_file=", ".join(dict.fromkeys(filter(None, (run.lab_file for run in runs)))),
        figures="emulated" if any(run.figures == "emulated" for run in runs) else "measured",
        pinet=__version__,
        started=min(run.started for run in runs),
        finished=max(run.finished or run.started for run in runs),
        complete=all(run.complete for run in runs) and len(runs) >= wanted,
        exitstatus=max(run.exitstatus for run in runs),
        results=tuple(results),
        skipped=tuple(dict.fromkeys(one for run in runs for one in run.skipped)),
        # Runs that are merged again are the same session, which a history stores once.
        session=hashlib.sha256("\n".join(sorted(map(_identity, runs))).encode()).hexdigest()[:32],
        meaning="; ".join(dict.fromkeys(filter(None, (run.meaning for run in runs)))) or None,
        merged=tuple(MergedRunRecord(run=one.run, lab=one.lab, session=one.session or "") for one in runs),
        change=_head(runs, results, wanted),
        scale=runs[0].scale if len({run.scale for run in runs}) == 1 else None,
    )


def exit_code(run: RunRecord) -> int:
    """Return the exit code of ``pinet gate`` for a merged run; without a build under test that of its verdicts."""
    if run.change is not None:
        return run.change.exit
    verdicts = {result.verdict for result in run.results}
    if Verdict.FAIL in verdicts:
        return 1
    if any(result.verdict is Verdict.ERROR and not result.died for result in run.results):
        return 2
    return 0 if verdicts and run.complete and verdicts <= {*GOOD, Verdict.SKIPPED} else 3


def _check(shards: Sequence[Shard]) -> None:
    first = shards[0]
    seen: dict[str, str] = {}
    for shard in shards:
        identity = _identity(shard.run)
        if identity in seen:
            raise ConfigError(f"{shard.where} is the same run as {seen[identity]}; name each run once")
        seen[identity] = shard.where
        if (one := _gated(shard.run)) != (other := _gated(first.run)):
            raise ConfigError(f"{shard.where} has {one}, but {first.where} has {other}; merge runs of one gate")


def _identity(run: RunRecord) -> str:
    return run.session or f"{run.run} {run.lab} {run.started}"


def _gated(run: RunRecord) -> str:
    """Return what a run judges, in words that are equal for all shards of a gate."""
    head = run.change
    if head is None:
        return "no build under test"
    own = f"the {head.a.name}" if head.baseline == EXACT else "the boards' own build"
    sides = [f"{build.name} ({build.key})" if build.key else own for build in (head.b, head.a)]
    return f"{sides[0]} against {'accepted baselines' if head.baseline == 'accepted' else sides[1]}, {head.baseline}"


def _is_within(run: RunRecord, shards: int, error_rate: float) -> bool:
    """Return whether a run judged its values as one of so many shards, at this error rate of all."""
    return (run.shards or 1) >= shards and (run.error_rate or 1.0) <= error_rate * (1 + _ROUNDING)


def _rejudged(result: ResultRecord, values: int, error_rate: float, shards: int) -> ResultRecord:
    """Return the result with what is certain among ``values`` values."""
    change = result.change
    if change is None or result.exact is not None:
        return result
    found = {way: _among(one, values, error_rate, shards) for way, one in change.directions.items()}
    costs = {key: _among(one, values, error_rate, shards) for key, one in (change.costs or {}).items()}
    changed = {way: one for way, one in found.items() if one is not change.directions[way]}
    of_costs = {key: one for key, one in costs.items() if one is not (change.costs or {})[key]}
    if not changed and not of_costs:
        return result
    directions = {
        way: _with(direction, changed[way]) if way in changed else direction
        for way, direction in result.directions.items()
    }
    dearer = [one.verdict for one in costs.values() if one.verdict is Verdict.FAIL]
    verdict = worst([*(one.verdict for one in directions.values()), *dearer])
    whys = "; ".join(f"{way}: {one.why}" for way, one in (changed | of_costs).items())
    return result.replace(
        change=change.replace(directions=found, costs=costs or None),
        directions=directions,
        verdict=verdict,
        message=f"{result.combination.id} {whys}",
    )


def _among(one: Changed, values: int, error_rate: float, shards: int) -> Changed:
    if one.verdict not in (Verdict.FAIL, Verdict.IMPROVED):
        return one
    if one.error is not None and one.error * values <= error_rate * (1 + _ROUNDING):
        return one
    why = f"{one.why}; not certain among the {values} metrics of all runs"
    if one.verdict is Verdict.IMPROVED:
        return one.replace(verdict=Verdict.PASS, why=why)
    return one.replace(verdict=Verdict.INCONCLUSIVE, why=f"{why}: gate each shard with --pinet-shards {shards}")


def _with(direction: DirectionRecord, one: ChangedDirectionRecord) -> DirectionRecord:
    # An invalid value stays invalid.
    if direction.verdict is Verdict.INVALID:
        return direction
    return direction.replace(verdict=one.verdict, reason=one.why)


def _of_lab(result: ResultRecord, shard: Shard, lab: str) -> ResultRecord:
    """Return the result with its files in the merged run folder, and with its lab if there are several."""
    result = result.replace(files=tuple(f"{shard.folder}/{path}" for path in result.files))
    if not lab:
        return result
    change = result.change
    if change is not None:
        named = {way: one.replace(why=f"lab {lab}: {one.why}") for way, one in change.directions.items()}
        costs = {key: one.replace(why=f"lab {lab}: {one.why}") for key, one in (change.costs or {}).items()}
        change = change.replace(directions=named, costs=costs or None)
    return result.replace(lab=result.lab or lab, change=change)


def _head(runs: Sequence[RunRecord], results: Sequence[ResultRecord], wanted: int) -> ChangeHeadRecord | None:
    heads = [run.change for run in runs if run.change is not None]
    if not heads:
        return None
    first = heads[0]
    turns = sum(head.turns for head in heads)
    exact = first.baseline == EXACT
    head = with_note(
        change_head(first.a, first.b, results, first.baseline == "accepted", turns, exact=exact), first.note
    ).replace(code=next((one.code for one in heads if one.code is not None), None))
    if head.verdict is not Verdict.PASS:
        return head
    # A shard can lack a verdict although all its metrics are good: a test failed for another reason.
    bad = min(heads, key=lambda one: SEVERITY.index(one.verdict))
    if bad.verdict not in (Verdict.PASS, Verdict.FAIL):
        return _answered(head, bad, bad.sentence)
    if len(runs) < wanted or not all(run.complete for run in runs):
        what = f"only {len(runs)} of {wanted} shards were merged" if len(runs) < wanted else "a run was interrupted"
        interrupted = change_head(first.a, first.b, results, False, turns, interrupted=True, exact=exact)
        return _answered(head, interrupted, f"No decision on {first.b.name}: no metric is slower, but {what}.")
    return head


def _answered(head: ChangeHeadRecord, like: ChangeHeadRecord, sentence: str) -> ChangeHeadRecord:
    return head.replace(verdict=like.verdict, exit=like.exit, bisect_exit=like.bisect_exit, sentence=sentence)
