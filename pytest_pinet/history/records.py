"""Converts the record of a run to points."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import quoted
from pytest_pinet.history.points import Point, StoredRun, gate_of, metric_id
from pytest_pinet.history.results_file import broken, moment
from pytest_pinet.model.figures import GOODPUT
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import GOOD, Verdict

# Behind the ID of a value of build or state B.
OF_B = " (B)"
# More than any link carries.
MAX_BPS = 1e15
# Less than any link carries, other than nothing: a bit in a quarter of an hour.
MIN_BPS = 1e-3
# Names become parts of files, addresses and messages. This is the longest path of a file on Linux.
LONGEST_NAME = 4096


def points_of(
    record: RunRecord, folder: str = "", where: str = "", alternated: bool = False
) -> tuple[StoredRun, list[Point]]:
    """Return a run and its points. ``folder`` is the run folder; ``where`` names the file in messages.

    ``alternated`` includes results of two builds or states that were measured alternately: their B, as a metric of its
    own. They are no part of a history: B may be a state made for a comparison, or a build that is never accepted.

    Raises ConfigError if a time or a goodput is impossible.
    """
    try:
        run, points = _points(record, folder, alternated)
        check_run(run)
        for point in points:
            with _named(point.figure):
                check_point(point)
        return run, points
    except (ValueError, OverflowError) as error:
        raise ConfigError(broken(where, str(error))) from None


@contextmanager
def _named(figure: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{quoted(figure)}: {error}") from None


def check_run(run: StoredRun) -> None:
    """Check that the names and times of a run and the values of its gate are possible. Raises ValueError."""
    _check_names(run.id, run.lab, run.session or "")
    for time in (run.started, run.finished or run.started):
        moment(time)
    for metric in run.change.entries if run.change is not None else ():
        with _named(metric.figure):
            _check_names(metric.figure)
            _check_rates(metric.a_bps, metric.b_bps, *(level for turn in metric.turns for level in turn.levels_bps))
            for share in (metric.change, metric.tolerance, *(metric.interval or ())):
                if share is not None and not abs(share) < MAX_BPS / MIN_BPS:
                    raise ValueError(f"a change or a tolerance of {share:g}")


def _check_names(*names: str) -> None:
    for name in names:
        if len(name) > LONGEST_NAME:
            raise ValueError(f"a name of {len(name)} characters; at most {LONGEST_NAME} are possible")


def _check_rates(*rates: float | None) -> None:
    for rate in rates:
        if rate is not None and rate != 0 and not MIN_BPS < abs(rate) < MAX_BPS:
            raise ValueError(f"a rate of {rate:g} bit/s")


def check_point(point: Point) -> None:
    """Check that the names, the values, the scale and the number of a point are possible. Raises ValueError."""
    _check_names(point.figure, point.combination, point.direction, point.lab, point.boot, point.link_up)
    _check_names(point.parameters, *point.artefacts)
    # The store keeps it in 32 bits.
    if not 0 <= point.number < 2**32:
        raise ValueError(f"a point with the number {point.number}")
    values = [point.value, point.limit, point.oracle, *(point.interval or ()), *point.values]
    values += [one.goodput_bps for one in point.connections]
    if point.kind == GOODPUT:
        _check_rates(*values)
    elif not all(abs(value or 0.0) < MAX_BPS for value in values):
        raise ValueError(f"a value beyond {MAX_BPS:g}")
    if (point.value or 0) < 0:
        raise ValueError(f"a {point.kind.name} of {point.value:g} {point.kind.unit}")
    if not 0 < point.scale <= 1:
        raise ValueError(f"a scale of {point.scale:g}")


def _points(record: RunRecord, folder: str, alternated: bool) -> tuple[StoredRun, list[Point]]:
    change = record.change and gate_of(record.change, record.results)
    run = StoredRun.of(
        record, id=_run_id(record), folder=clean(folder), verdicts={}, missed=len(record.skipped), change=change,
        results=(), skipped=(),
    )  # fmt: skip
    points: list[Point] = []
    seen: Counter[str] = Counter()
    for result in record.results:
        # The history has the instructions of exact boards, without a trend: each value belongs to a gated build.
        of_b = result.comparison is not None or (result.change is not None and result.exact is None)
        if of_b and not alternated:
            continue
        with _named(result.id):
            if result.verdict in GOOD and not result.directions and not result.has_no_rate:
                raise ValueError(f"the verdict is {result.verdict}, but there are no directions, so no value")
            found = list(_of_result(result, run))
        for point in found:
            if of_b:
                point["figure"] += OF_B
            seen[point["figure"]] += 1
            points.append(Point(**point, number=seen[point["figure"]]))
    return run.replace(verdicts=Counter(str(point.verdict) for point in points)), points


def _run_id(record: RunRecord) -> str:
    """Return a unique run ID: a folder's name is unique below its root only, and runners can share a history."""
    facts = record.session or "\n".join((record.lab, record.lab_file, record.started, record.finished))
    return f"{record.run}-{hashlib.sha256(facts.encode('utf-8', 'replace')).hexdigest()[:8]}"


def clean(text: str) -> str:
    """Return text that every database accepts: no lone surrogates of undecodable bytes, and no NUL."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")


def _of_result(result: ResultRecord, run: StoredRun) -> Iterable[dict[str, Any]]:
    limited = result.limited_by
    shared = {
        **run.of_points,
        "lab": clean(result.lab or run.lab),
        "time": moment(result.started or run.started),
        "combination": result.combination.id,
        "build": dict(result.build),
        "serials": dict(result.serials or {}),
        "settings": result.settings or {},
        "versions": dict(result.versions),
        "parameters": result.parameters or "",
        "artefacts": result.files,
        "scale": result.scale or 1.0,
        "boot": clean(result.boot or ""),
        "link_up": clean(result.link_up or ""),
        "limited_by": clean(f"{limited.cause}: {limited.text}") if limited is not None else "",
        "instructions": result.exact.b.instructions if result.exact is not None else None,
        "packets_per_second": result.exact.b.packets_per_second if result.exact is not None else None,
    }
    for name, figure in (result.figures or {}).items():
        yield {**shared, "figure": f"{result.id}-{name}", "direction": name, **_of_figure(name, figure)}
    if not result.directions and not result.figures:
        yield {
            **shared,
            # A result without goodput by nature, such as pings, keeps its own ID. A failed one has the combination's
            # ID.
            "figure": result.id if result.has_no_rate else result.combination.id,
            "direction": "",
            "value": None,
            "verdict": result.verdict,
            "reason": clean(result.message),
        }
    for way, direction in result.directions.items():
        found = _of_direction(direction)
        if result.exact is not None:
            # The octets in a second of virtual time are no goodput.
            found |= dict.fromkeys(("value", "interval", "limit"))
        yield {**shared, "figure": metric_id(result.id, way), "direction": way, **found}


def metrics_of(result: ResultRecord) -> dict[str, Verdict]:
    """Return the verdict of each value of a result that has a trend, by the last part of its ID.

    Costs of traffic have one only if they fail, since they would hide the goodput.
    """
    ways = {} if result.exact is not None else {way: one.verdict for way, one in result.directions.items()}
    figures = {name: one.verdict for name, one in (result.figures or {}).items()}
    return {**ways, **{name: one for name, one in figures.items() if not ways or one is Verdict.FAIL}}


def value_of(result: ResultRecord, name: str) -> dict[str, Any]:
    """Return the fields of a point with this value of a result: a direction, or a value beside goodput."""
    if name in result.directions:
        return _of_direction(result.directions[name])
    return _of_figure(name, (result.figures or {})[name])


def reason_of(direction: DirectionRecord) -> str:
    """Return the reason of a verdict; empty if it has none.

    If goodput meets its limit, the reason of a bad verdict is that of its loss, latency or other extra value.
    """
    extras = [extra.reason for extra in direction.extras if extra.verdict is direction.verdict]
    meets = direction.goodput_bps is None or direction.goodput_bps >= (direction.limit_bps or 0.0)
    first = meets and direction.verdict not in GOOD
    return next(filter(None, (*extras, direction.reason) if first else (direction.reason, *extras)), "")


def newest(points: Iterable[Point]) -> list[Point]:
    """Return one point for each metric of a lab: the last one if it was measured several times."""
    return [*{(point.lab, point.figure): point for point in points}.values()]


def _of_direction(direction: DirectionRecord) -> dict[str, Any]:
    return {
        "value": direction.goodput_bps,
        "interval": direction.interval_bps,
        "limit": direction.limit_bps,
        "of_baseline": direction.limit is not None and direction.limit.baseline is not None,
        # An exact board has no physical limit.
        "oracle": direction.oracle_bps or None,
        "verdict": direction.verdict,
        "reason": clean(reason_of(direction)),
        # Without what no trend shows.
        "connections": tuple(
            replace(one, warmup_s=0.0, events=(), samples=(), boot_age_s=None) for one in direction.connections
        ),
        "state": direction.state,
    }


def _of_figure(name: str, one: FigureJudgement) -> dict[str, Any]:
    return {
        "kind": one.kind(name),
        "value": one.value,
        "values": one.values,
        "interval": one.interval,
        "limit": None if one.limit is None else one.limit.number,
        "of_baseline": one.limit is not None and one.limit.baseline is not None,
        "verdict": one.verdict,
        "reason": clean(one.reason),
        "state": one.state,
    }
