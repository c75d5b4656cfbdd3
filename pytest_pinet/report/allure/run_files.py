"""Writes files to a folder of Allure results: a stand-in for a running test, and at the end the files of the whole run.

The files of the run cannot be written earlier: with ``--clean-alluredir`` each worker empties the folder at its start.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.files import write_file, writing
from pytest_pinet.history.points import metric_id
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.allure.content import attachment_name, csv_bytes, labels, parameters
from pytest_pinet.report.allure.identity import (
    MEMORY,
    PREFIX,
    Subject,
    allure2_history,
    allure3_history,
    categories,
    known_tests,
    remembered,
    runs_of,
)
from pytest_pinet.report.charts.results import overview_chart
from pytest_pinet.report.sentences import scale_text
from pytest_pinet.report.terminal import count_line, rows_of
from pytest_pinet.report.text_wrap import plain
from pytest_pinet.report.trends import FigureSeries, RunFacts

OPTION = "--alluredir"
UNIT = "Mbit/s"
# Identifies the run to `pinet report`, which derives the history of all other runs.
RUN_FILE = "pinet-run.json"
# Titles of our own traffic tools, where the tool's name is not enough.
_TITLES = {"wrk": "nginx, wrk"}
_STAND_IN = f"{PREFIX[Verdict.ERROR]}: the process that ran this test died; look at the end of the run's output"
# CI services by a variable that each one sets: name and type of the executor, variable of the run's number, URL.
_CI_SERVICES = {
    "GITHUB_ACTIONS": (
        "GitHub Actions", "github", "GITHUB_RUN_NUMBER",
        "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}",
    ),
    "GITLAB_CI": ("GitLab CI", "gitlab", "CI_PIPELINE_IID", "{CI_JOB_URL}"),
    "JENKINS_URL": ("Jenkins", "jenkins", "BUILD_NUMBER", "{BUILD_URL}"),
}  # fmt: skip
_KEY = str.maketrans({" ": "\\ ", ":": "\\:", "=": "\\="})


class AllureRun:
    """Writes the files of the whole run next to the Allure results.

    ``record`` returns the run's record when the run is over, ``facts`` what the history knows about the run. ``warn``
    shows a message to the user.
    """

    def __init__(
        self,
        config: pytest.Config,
        directory: Path,
        record: Callable[[], RunRecord | None],
        facts: Callable[[RunRecord], RunFacts],
        warn: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._record = record
        self._facts = facts
        self._warn = warn
        self._errors: list[str] = []
        if getattr(config.option, "clean_alluredir", False) and getattr(config.option, "numprocesses", None):
            # In allure-pytest each worker would empty the folder again; our plugin prevents it.
            warn(f"--clean-alluredir emptied {directory} once, before the workers began")
        elif (directory / RUN_FILE).exists():
            why = "Allure treats two results of one test as retries, and shows only one"
            warn(f"{directory} holds an earlier run: {why}; add --clean-alluredir, or name another folder")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep collection errors: a file that cannot be collected leaves no result."""
        if report.failed:
            self._errors.append(f"{report.nodeid or 'the tests'} could not be collected\n{report.longreprtext}")

    # Last, because the record must be complete.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        record = self._record()
        if session.config.option.collectonly:
            return
        ended_by = sys.exc_info()[1]
        if isinstance(ended_by, pytest.UsageError):
            self._errors.append(f"pytest could not begin\n{ended_by}")
        try:
            for error in self._errors:
                write_global_error(self._directory, error)
            if record is not None:
                write_run_files(self._directory, record, self._facts(record), os.environ)
        except ConfigError as error:
            self._warn(str(error))


def write_stand_in(folder: Path, subject: Subject) -> Path:
    """Write the stand-in and return its path. The caller removes it when the real result exists. Raises OSError."""
    now = int(time.time() * 1000)
    name = str(uuid.uuid4())
    result = {
        "uuid": name,
        "name": f"{subject.combination} · error",
        "status": "broken",
        "statusDetails": {"message": _STAND_IN},
        "testCaseId": subject.id,
        "historyId": subject.id,
        "fullName": f"{subject.path}#{subject.test}",
        "start": now,
        "stop": now,
        "parameters": [
            {"name": key, "value": value, **({"excluded": True} if excluded else {})}
            for key, value, excluded in parameters(subject, [])
        ],
        "labels": [{"name": key, "value": value} for key, value in labels(subject, [])],
    }
    path = folder / f"{name}-result.json"
    write_file(path, [json.dumps(result).encode("ascii")])
    return path


def write_run_files(folder: Path, run: RunRecord, facts: RunFacts, environ: Mapping[str, str]) -> None:
    """Write metrics, environment, categories, executor, history and an overview. Raises ConfigError."""
    files: dict[str, bytes] = {
        f"{uuid.uuid4()}-perf.json": _json(metrics(run.results)),
        "environment.properties": environment(run, facts.losses).encode("ascii"),
        "categories.json": _json(categories()),
        "executor.json": _json(executor(run, facts.order, environ)),
        RUN_FILE: _json({"run": facts.id, "build": facts.build, "lab": run.lab, "started": run.started}),
    }
    exact = [result for result in run.results if result.exact is not None]
    if exact:
        files |= attached("results of the run", "text/csv", exact_csv(exact))
    # Exact boards have no physical limit of which a bar could show the share.
    elif rows := rows_of(run.results):
        note = count_line(run.results, run.skipped)
        values = "emulated values" if run.figures == "emulated" else "measured values"
        note = "; ".join(filter(None, (note, scale_text(run.results))))
        picture = overview_chart(rows, f"Run {run.run} in lab {run.lab}: {values}", note).svg()
        files |= attached("overview of the run", "image/svg+xml", picture.encode())
        files |= attached("results of the run", "text/csv", figures_csv(run.results))
    if facts.series:
        files |= history(folder, facts.series, facts.id)
    if facts.losses:
        text = "\n".join(facts.losses) + "\n"
        files |= attached("losses that did not recover", "text/plain", text.encode("utf-8", "replace"))
    _write(folder, files)


def write_global_error(folder: Path, message: str) -> None:
    """Write an error of the whole run, because an empty report would look harmless. Raises ConfigError."""
    error = {"message": message, "trace": "", "timestamp": int(time.time() * 1000)}
    _write(folder, {f"{uuid.uuid4()}-globals.json": _json({"errors": [error]})})


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    with writing(folder, OPTION):
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_file(folder / name, [content])


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode("ascii")


def metrics(results: Sequence[ResultRecord]) -> list[dict[str, object]]:
    """Return Allure 3's metrics, one key per direction: goodput in Mbit/s, of exact boards instructions.

    Invalid results and lab errors are left out.
    """
    found: list[dict[str, object]] = []
    for result in results:
        combination = result.combination
        for way, direction in result.directions.items():
            key = metric_id(result.id, way)
            value, unit, better = round(direction.goodput_bps / 1e6, 3), UNIT, "higher"
            if result.exact is not None:
                counted = result.exact.b.instructions
                if counted is None:
                    continue
                value, unit, better = round(counted, 2), f"instructions per {result.exact.unit}", "lower"
            if direction.verdict in (Verdict.INVALID, Verdict.ERROR):
                continue
            start = int(datetime.fromisoformat(result.started).timestamp() * 1000)
            stop = start + int(result.seconds * 1000)
            found.append({
                "id": f"{key}#{len(found) + 1}",
                "key": key,
                "value": value,
                "start": start,
                "stop": stop,
                "title": f"{combination.id} {combination.traffic} {way}",
                "unit": unit,
                "better": better,
                "group": combination.board,
                "groupTitle": combination.board,
            })  # fmt: skip
    return found


def history(folder: Path, series: Sequence[FigureSeries], run: str) -> dict[str, bytes]:
    """Return the history of the tests in a folder without this run, for an ``allure`` that users start themselves.

    Allure 2 looks for ``history/`` in the folder. Allure 3 reads ``history.jsonl`` if its option names it.
    """
    tests, runs = remembered(known_tests(folder), MEMORY), runs_of(series, run)
    files = {f"history/{name}": text for name, text in allure2_history(runs, tests).items()}
    files["history.jsonl"] = allure3_history(runs, tests)
    return {name: text.encode("ascii") for name, text in files.items()}


def environment(run: RunRecord, losses: Sequence[str] = ()) -> str:
    """Return facts about the run as a Java properties file. ``losses``: see `RunFacts`."""
    results = run.results
    facts: dict[str, set[str]] = {
        "lab": {run.lab},
        "figures": {run.figures},
        "pytest-pinet": {run.pinet},
        "run": {run.run},
        "losses": {*losses[:1]},
        "profile": {result.profile for result in results},
        "scale": {f"links at {result.scale:g} of their rate" for result in results if result.scale is not None},
    }
    for result in results:
        tool = _TITLES.get(name := result.tool or ("wrk" if result.http is not None else "iperf3"), name)
        facts.setdefault(tool, set()).update(result.versions.values())
        for name, value in result.build.items():
            facts.setdefault(name, set()).add(value or "")
    lines = []
    for name, values in facts.items():
        known = sorted(filter(None, values))
        shown = "; ".join(known[:5]) + (f" and {len(known) - 5} more" if len(known) > 5 else "")
        if known:
            # The format is Latin-1. A backslash begins an escape, also in the output of ``plain``.
            lines.append(f"{plain(name).translate(_KEY)}={plain(shown.replace(chr(92), '/'))}")
    return "\n".join(lines) + "\n"


def executor(run: RunRecord, order: int | None, environ: Mapping[str, str]) -> dict[str, object]:
    """Return the executor: the CI job, or pytest outside CI."""
    found: dict[str, object] = {
        "name": "pytest-pinet", "type": "pytest", "buildName": run.run, "reportName": f"pinet {run.lab}"
    }  # fmt: skip
    number = ""
    for variable, (name, kind, number_variable, url) in _CI_SERVICES.items():
        if environ.get(variable):
            number = environ.get(number_variable, "")
            found |= {"name": name, "type": kind, "buildUrl": url.format_map(defaultdict(str, environ))}
            break
    chosen = int(number) if number.isdigit() else order
    return found if chosen is None else {**found, "buildOrder": chosen}


def attached(name: str, kind: str, content: bytes) -> dict[str, bytes]:
    """Return the files of an attachment of the whole run, as allure-pytest writes them since 2.16."""
    source = attachment_name(kind)
    entry = {"name": name, "source": source, "type": kind, "timestamp": int(time.time() * 1000)}
    return {source: content, f"{uuid.uuid4()}-globals.json": _json({"attachments": [entry]})}


def exact_csv(results: Sequence[ResultRecord]) -> bytes:
    """Return the windows of an exact gate as CSV: instructions and packets (or answers) in a second of virtual time."""
    rows: list[Sequence[object]] = [
        ("figure", "verdict", "unit", "instructions_a", "instructions_b", "per_second_a", "per_second_b")
    ]
    for result in results:
        if (exact := result.exact) is not None:
            a, b = exact.a, exact.b
            counts = a.instructions, b.instructions, a.packets_per_second, b.packets_per_second
            rows.append([result.id, result.verdict, exact.unit, *(one and round(one, 2) for one in counts)])
    return csv_bytes(rows)


def figures_csv(results: Sequence[ResultRecord]) -> bytes:
    """Return the results as CSV, one row per direction, in whole bit/s; a cell is empty where no value exists."""
    names = ("figure", "verdict", "goodput_bps", "low_bps", "high_bps", "limit_bps", "oracle_bps", "retransmits")
    rows: list[Sequence[object]] = [names]
    for result in results:
        for way, one in result.directions.items():
            low, high = one.interval_bps or (None, None)
            rates = [one.goodput_bps, low, high, one.limit_bps, one.oracle_bps]
            rounded = [None if value is None else round(value) for value in rates]
            rows.append([metric_id(result.id, way), one.verdict, *rounded, one.retransmits])
        if not result.directions:
            rows.append([result.id, result.verdict, *[None] * 6])
    return csv_bytes(rows)
