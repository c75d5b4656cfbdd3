"""Converts ``results.json`` to points. Files of older versions lack keys, and must all be accepted."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pytest_pinet.errors import ConfigError
from pytest_pinet.history.points import Attempts, Point, SampleSpread, StoredAttempt, StoredRun
from pytest_pinet.model.verdict import SEVERITY, Verdict

# The results.json versions that this module reads.
KNOWN_SCHEMAS = (1,)


def points_of(record: Mapping[str, Any], folder: str = "", where: str = "") -> tuple[StoredRun, list[Point]]:
    """Return a run and its points. ``folder`` is the run folder; ``where`` names the file in messages.

    Raises ConfigError if this is no ``results.json``, or one of an unknown version.
    """
    if not isinstance(record, dict) or not isinstance(record.get("results"), list) or "run" not in record:
        raise ConfigError(f"{where or 'this'} is no results.json of pytest-pinet; expected 'run' and 'results' in it")
    if record.get("schema") not in KNOWN_SCHEMAS:
        message = f"{where or 'results.json'} is of version {record.get('schema')!r}"
        raise ConfigError(f"{message}; expected {KNOWN_SCHEMAS[-1]}: update pytest-pinet")
    try:
        return _points(record, folder)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"{where or 'results.json'} is broken ({what}); check it against 'pinet schema results'"
        ) from None


def _points(record: Mapping[str, Any], folder: str) -> tuple[StoredRun, list[Point]]:
    started = moment(record["started"])
    session = str(record.get("session") or "")
    run_id = _run_id(str(record["run"]), session, record)
    lab = str(record.get("lab", ""))
    emulated = record.get("figures") == "emulated"
    complete = bool(record.get("complete", True))
    common: dict[str, Any] = {
        "run": run_id,
        "lab": lab,
        "session": session,
        "emulated": emulated,
        "complete": complete,
        "folder": folder,
        "pinet": str(record.get("pinet", "")),
    }
    points: list[Point] = []
    seen: Counter[str] = Counter()
    for result in record["results"]:
        if result.get("comparison") or result.get("change"):
            # Values of a state made for a comparison, or of a build that may never be accepted.
            continue
        for point in _of_result(result, common, started):
            seen[point["figure"]] += 1
            points.append(Point(**point, number=seen[point["figure"]]))
    verdicts = Counter(str(point.verdict) for point in points)
    finished = moment(record.get("finished") or record["started"])
    run = StoredRun(
        run_id, lab, started, finished, emulated, complete, int(record.get("exitstatus", 0)), common["pinet"], folder,
        session, dict(verdicts), len(record.get("skipped", ())),
    )  # fmt: skip
    return run, points


def moment(text: str) -> datetime:
    """Parse an ISO 8601 time; without a time zone it is UTC. Raises ValueError."""
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _run_id(run: str, session: str, record: Mapping[str, Any]) -> str:
    """Return a unique run ID.

    A run folder's name is unique below its root only, and several runners can share a history.
    """
    facts = session or "\n".join(str(record.get(key)) for key in ("lab", "lab_file", "started", "finished"))
    return f"{run}-{hashlib.sha256(facts.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _of_result(result: Mapping[str, Any], common: Mapping[str, Any], started: datetime) -> Iterable[dict[str, Any]]:
    combination = result["combination"]
    shared = {
        **common,
        "time": moment(result["started"]) if result.get("started") else started,
        "combination": combination["id"],
        "build": dict(result.get("build") or {}),
        "serials": dict(result.get("serials") or {}),
        "versions": dict(result.get("versions") or {}),
        "parameters": str(result.get("parameters") or ""),
        "artefacts": tuple(result.get("files") or ()),
        "scale": float(result.get("scale") or 1.0),
        "limited_by": f"{limited['cause']}: {limited['text']}" if (limited := result.get("limited_by")) else "",
    }
    directions = result.get("directions") or {}
    if not directions:
        yield {
            **shared,
            # A result without goodput by nature, such as pings, keeps its own ID. A failed one has the combination's
            # ID.
            "figure": str(result["id"]) if "ping" in result else combination["id"],
            "direction": "",
            "goodput_bps": None,
            "verdict": Verdict(result["verdict"]),
            "reason": result.get("message", ""),
        }
    for way, direction in directions.items():
        yield {**shared, "figure": figure_of(result, way), "direction": way, **_of_direction(direction)}


def figure_of(result: Mapping[str, Any], way: str) -> str:
    """Return the ID under which this direction is gated, calibrated and accepted."""
    found = str(result["id"])
    return found if found.endswith(f"-{way}") else f"{found}-{way}"


def _of_direction(direction: Mapping[str, Any]) -> dict[str, Any]:
    interval = direction.get("interval_bps")
    attempts = direction.get("attempts") or ()
    verdict = Verdict(direction["verdict"])
    reason = direction.get("reason", "")
    for extra in direction.get("extras") or ():
        if extra["verdict"] == verdict and not reason:
            reason = extra["reason"]
    goodput = float(direction["goodput_bps"])
    if not math.isfinite(goodput) or goodput < 0:
        raise ValueError(f"a goodput of {goodput} bit/s")
    return {
        "goodput_bps": goodput,
        "interval_bps": None if interval is None else (float(interval[0]), float(interval[1])),
        "limit_bps": direction.get("limit_bps"),
        "rule": direction.get("rule"),
        "oracle_bps": direction.get("oracle_bps"),
        "verdict": verdict,
        "reason": reason,
        "attempts": Attempts(
            tuple(
                StoredAttempt(one.get("fresh", ""), one["goodput_bps"], one["seconds"], one.get("excluded", ""))
                for one in attempts
            ),
            direction.get("state", ""),
        ),
        "spread": spread_of(direction.get("samples") or ()),
    }


def spread_of(samples: Iterable[Mapping[str, Any]]) -> SampleSpread | None:
    """Return the counted intervals in five numbers; None if there are no intervals."""
    rates = [s["bytes"] * 8 / s["seconds"] for s in samples if not s.get("warmup") and s["seconds"] > 0]
    if not rates:
        return None
    sd = statistics.stdev(rates) if len(rates) > 1 else None
    return SampleSpread(len(rates), min(rates), statistics.median(rates), max(rates), sd)


def worst_of(points: Iterable[Point]) -> Verdict:
    """Return the worst verdict of several points; SKIPPED if there are none."""
    return min((point.verdict for point in points), key=SEVERITY.index, default=Verdict.SKIPPED)
