"""What a test is in Allure: one permanent id for each combination and test, its status, and a category.

Allure's own id is a hash of file name, function and parameters without separators. A moved file, another working
directory or an object among the parameters cuts a trend, and two combinations may get the same id. A category says who
must act.

The formats of Allure's history files are internal to Allure; tested with 3.18.0 and 2.46.1. They are derived from our
history: Allure's own history loses lines when two reports are made at the same time, counts a report that is made again
as another run, and keeps only 20 runs (Allure 2).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_pinet.execution.files import write_file, writing
from pytest_pinet.execution.text import parse_json
from pytest_pinet.history.points import Point
from pytest_pinet.model.figures import GOODPUT
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict, worst
from pytest_pinet.report.trends import FigureSeries

# The only parameter that is not excluded, so Allure 3 includes it in its hash.
PARAMETER = "combination"
# Allure's status words. A result without a measurement must not look harmless: not grey (skipped), not green (passed).
STATUS: Mapping[Verdict, str] = {
    Verdict.PASS: "passed",
    Verdict.MARGINAL: "passed",
    Verdict.IMPROVED: "passed",
    Verdict.FAIL: "failed",
    Verdict.INCONCLUSIVE: "broken",
    Verdict.INVALID: "broken",
    Verdict.ERROR: "broken",
    Verdict.SKIPPED: "skipped",
}
# Prefix of the message. The category rules of Allure 2 and 3 match it.
PREFIX: Mapping[Verdict, str] = {
    Verdict.FAIL: "regression",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.INVALID: "invalid",
    Verdict.ERROR: "lab error",
}
UNMEASURED = "not measured"
# For a test marked xfail: no valid result, or goodput below the limit. A lab error is never expected.
EXPECTED = "expected"
_EXPECTABLE = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.INVALID)
_CATEGORIES = (
    ("Regression", PREFIX[Verdict.FAIL], "failed"),
    ("Lab error", PREFIX[Verdict.ERROR], "broken"),
    ("Inconclusive measurement", PREFIX[Verdict.INCONCLUSIVE], "broken"),
    ("Invalid measurement", PREFIX[Verdict.INVALID], "broken"),
    ("Expected to give no result", EXPECTED, "skipped"),
    ("Nothing measured", UNMEASURED, "unknown"),
)


@dataclass(frozen=True)
class Subject:
    """What a test measures: a combination, the test's name, and its parameters other than the link.

    ``test`` is the name without file and parameters. ``path`` is the file; it becomes part of the key only if two tests
    would have the same key.
    """

    combination: CombinationId
    test: str
    parameters: Mapping[str, object]
    path: str
    told_apart: str = ""

    @property
    def key(self) -> str:
        """Return a JSON text of all stable parts, without ambiguity."""
        of = self.combination
        parts = [of.board, of.nic, of.topology, self.test, {k: repr(v) for k, v in self.parameters.items()}]
        # Omit empty parts, so that tests from before tunings existed keep their id.
        tuning = [{"tuning": of.tuning}] if of.tuning else []
        return json.dumps([*parts, *tuning, *([self.told_apart] if self.told_apart else [])], sort_keys=True)

    @property
    def id(self) -> str:
        """Return the test case id and history id of Allure 2. Allure 3 derives its own id from it."""
        return _md5(f"pinet:{self.key}")


def allure3_id(test_case_id: str, combination: str) -> str:
    """Return the history id of Allure 3 (3.18: ``md5(testCaseId).md5(name:value)``)."""
    return f"{_md5(test_case_id)}.{_md5(f'{PARAMETER}:{combination}')}"


def tell_apart(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the subjects. Where tests of several files have the same key, the file becomes part of the key."""
    keys = Counter(subject.key for subject in subjects)
    return [replace(s, told_apart=s.path) if keys[s.key] > 1 else s for s in subjects]


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def categories() -> list[dict[str, object]]:
    """Return the rules of ``categories.json`` (Allure 2) and ``categories.rules`` (Allure 3)."""
    return [
        # [\s\S]: Allure 2 requires a match of the whole message, and a dot does not match a line end.
        {"name": name, "messageRegex": rf"^{prefix}: [\s\S]*", "matchedStatuses": [status]}
        for name, prefix, status in _CATEGORIES
    ]


def verdict_of(results: Sequence[ResultRecord]) -> Verdict | None:
    """Return the worst verdict of a test's results; None without results."""
    return worst([result.verdict for result in results]) if results else None


def status_of(results: Sequence[ResultRecord], pytest_status: str | None, expected: bool = False) -> tuple[str, str]:
    """Return Allure's status and the message prefix (empty: none), from our verdicts and pytest's status.

    The status is never better than either of them: a test may fail by its own assertion after a good measurement, and
    Allure shows a broken kernel found during setup as skipped, because pytest reports it so. With ``expected`` (the
    test is marked ``xfail``) a bad verdict needs no attention, but the status is not green either.
    """
    verdict = verdict_of(results)
    if verdict is None:
        return ("unknown", UNMEASURED) if pytest_status == "passed" else (pytest_status or "unknown", "")
    if expected and pytest_status == "skipped" and verdict in _EXPECTABLE:
        return "skipped", EXPECTED
    status = STATUS[verdict]
    if status == "passed" and pytest_status in ("failed", "broken", "skipped"):
        return pytest_status, ""
    return status, PREFIX.get(verdict, "")


# Which metrics the tests in Allure's results measure. The file can be deleted.
MEMORY = Path(".pinet/allure-tests.json")
# Allure 2 shows at most this many runs.
_ALLURE2_RUNS = 20
_COUNTED = ("failed", "broken", "skipped", "passed", "unknown")


@dataclass(frozen=True)
class KnownTest:
    """One test in a folder of results: its ids and the ids of its metrics."""

    id: str
    name: str
    combination: str
    figures: tuple[str, ...]

    @property
    def allure3_id(self) -> str:
        return allure3_id(self.id, self.combination)


def known_tests(results: Path) -> list[KnownTest]:
    """Return the pinet tests in a folder of results. Results of other tests are ignored."""
    found: dict[str, KnownTest] = {}
    for path in sorted(results.glob("*-result.json")):
        try:
            result = parse_json(path.read_text(encoding="utf-8"))
            if not isinstance(result, dict):
                continue
            named = [(label["name"], str(label["value"])) for label in result.get("labels", ())]
            combination = next(str(p["value"]) for p in result.get("parameters", ()) if p["name"] == PARAMETER)
        except (OSError, ValueError, KeyError, TypeError, StopIteration):
            continue
        figures = tuple(dict.fromkeys(value for name, value in named if name == "figure"))
        case = str(result.get("testCaseId", ""))
        before = found.get(case)
        if case and (before is None or len(figures) > len(before.figures)):
            found[case] = KnownTest(case, str(result.get("name", "")), combination, figures)
    return list(found.values())


def remembered(tests: Sequence[KnownTest], memory: Path) -> list[KnownTest]:
    """Return the tests, with the metrics of earlier reports where a test has none now.

    After a lab error the result does not say which metrics the test has, but the test still has a history. ``memory``
    is a file of metric ids by test id. It is updated if its folder exists.
    """
    try:
        found = parse_json(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    entries = found.items() if isinstance(found, dict) else ()
    known: dict[str, list[str]] = {test: list(map(str, ids)) for test, ids in entries if isinstance(ids, list)}
    updated = {**known, **{test.id: list(test.figures) for test in tests if test.figures}}
    if updated != known and memory.parent.is_dir():
        with writing(memory, "--allure-results"):
            write_file(memory, [json.dumps(updated, indent=1).encode("ascii")])
    return [test if test.figures else replace(test, figures=tuple(known.get(test.id, ()))) for test in tests]


def runs_of(all_series: Sequence[FigureSeries], without: str) -> list[tuple[Point, dict[str, Point]]]:
    """Return all runs except ``without``, oldest first: the earliest point of each run, and all its points by id."""
    runs: dict[str, dict[str, Point]] = {}
    for series in all_series:
        for dot in series.points:
            if dot.run != without:
                runs.setdefault(dot.run, {})[series.figure] = dot
    ordered = [(min(dots.values(), key=lambda dot: dot.time), dots) for dots in runs.values()]
    return sorted(ordered, key=lambda run: run[0].time)


def allure3_history(runs: Sequence[tuple[Point, Mapping[str, Point]]], tests: Sequence[KnownTest]) -> str:
    """Return ``history.jsonl``: one line per run, newest last.

    The name of a run is its build, because Allure's table of a metric shows this name.
    """
    lines = []
    for first, dots in runs:
        stamp = _ms(first)
        known = {test.allure3_id: (test, dot) for test in tests if (dot := _worst(test, dots)) is not None}
        lines.append({
            "uuid": _uuid(first.run),
            "name": f"{first.build_name} ({first.time:%Y-%m-%d})",
            "timestamp": stamp,
            "url": "",
            "knownTestCaseIds": [test.id for test, _ in known.values()],
            "metrics": {
                figure: round(dot.value / 1e6, 3) if dot.kind == GOODPUT else dot.value
                for figure, dot in dots.items()
                if dot.value is not None and dot.verdict not in (Verdict.INVALID, Verdict.ERROR)
            },
            "testResults": {
                history_id: {
                    "id": _uuid(f"{first.run}/{history_id}"), "name": test.name, "status": STATUS[dot.verdict],
                    "message": _why(dot), "start": _ms(dot), "stop": _ms(dot), "duration": 0, "url": "",
                    "historyId": history_id, "reportLinks": [],
                }
                for history_id, (test, dot) in known.items()
            },
        })  # fmt: skip
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)


def allure2_history(runs: Sequence[tuple[Point, Mapping[str, Point]]], tests: Sequence[KnownTest]) -> dict[str, str]:
    """Return the files of ``history/`` for a folder of results: the runs of each test, and the trend, newest first."""
    shown = list(runs)[-_ALLURE2_RUNS:][::-1]
    history: dict[str, dict[str, object]] = {}
    for test in tests:
        items = [
            {"uid": _uuid(f"{first.run}/{test.id}")[:16], "status": STATUS[dot.verdict], "statusDetails": _why(dot),
             "time": {"start": _ms(dot), "stop": _ms(dot), "duration": 0}}
            for first, dots in shown
            if (dot := _worst(test, dots)) is not None
        ]  # fmt: skip
        if items:
            counts = _counts([str(item["status"]) for item in items])
            history[test.id] = {"statistic": {**counts, "total": len(items)}, "items": items}
    trend = []
    for index, (first, dots) in enumerate(shown):
        statuses = [STATUS[dot.verdict] for test in tests if (dot := _worst(test, dots)) is not None]
        order = len(runs) - index
        trend.append({
            "buildOrder": order, "reportName": first.build_name, "reportUrl": "",
            "data": {**_counts(statuses), "total": len(statuses)},
        })  # fmt: skip
    return {"history.json": json.dumps(history), "history-trend.json": json.dumps(trend)}


def _counts(statuses: Sequence[str]) -> dict[str, int]:
    return {status: statuses.count(status) for status in _COUNTED}


def _worst(test: KnownTest, dots: Mapping[str, Point]) -> Point | None:
    """Return the point with the worst verdict of a test in one run."""
    own = [dots[figure] for figure in test.figures if figure in dots]
    return min(own, key=lambda dot: SEVERITY.index(dot.verdict), default=None)


def _why(dot: Point) -> str:
    """Return the message of a run. A passed run has none, as in the results that our listener writes."""
    return "" if dot.verdict in GOOD else dot.reason


def _ms(dot: Point) -> int:
    return int(dot.time.timestamp() * 1000)


def _uuid(text: str) -> str:
    """Return a UUID derived from the text, so that every report has the same one."""
    return str(uuid.UUID(hex=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]))
