"""Connects a session to Allure. Imported only with ``--alluredir``, which allure-pytest declares."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_pinet.config.baselines import load_reviewed
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.errors import ConfigError
from pytest_pinet.history.history import open_history
from pytest_pinet.matrix.expansion import CombinationCase, Missing
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.report.allure.identity import Subject
from pytest_pinet.report.allure.listener import AllureResults
from pytest_pinet.report.allure.run_files import AllureRun
from pytest_pinet.report.sentences import read_losses, short_lines
from pytest_pinet.report.trends import FigureSeries, RunFacts, run_facts, series_with
from pytest_pinet.session.exact_gate import exact_combination_of
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.session.run_recorder import RunRecorder

_POINTS = 60
# Parameters of other types are left out: their text can contain an address, which differs between processes.
_PLAIN = (str, int, float, bool, type(None))


def attach(config: pytest.Config, directory: str, recorder: RunRecorder, lab: LabOfFile | None) -> None:
    """Complete the Allure results of this process, and in the controller the data of the whole run."""
    path = Path(directory).absolute()
    if not hasattr(config, "workerinput"):
        run = AllureRun(
            config, path, lambda: recorder.record, lambda record: _facts(recorder, lab, record), recorder.warn
        )
        config.pluginmanager.register(run, "pinet-allure-run")
    if not getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
        results = AllureResults(
            path,
            lambda item: subject_of(item, case_of(item)),
            lambda found: _trends(recorder, lab, found),
            lambda item: [node.name for node in case.combination.nodes] if (case := case_of(item)) else [],
            lambda: recorder.folder.path,
            recorder.warn,
        )
        config.pluginmanager.register(results, "pinet-allure-results")
        config.add_cleanup(results.start())


def _facts(recorder: RunRecorder, lab: LabOfFile | None, record: RunRecord) -> RunFacts:
    """Return what the history knows about the run, and the losses of its lab."""
    url = recorder.history_url
    facts = run_facts(record, url, _POINTS)
    if url is None or lab is None:
        return facts
    today = datetime.now(UTC).date()
    try:
        return replace(facts, losses=short_lines(read_losses(url, lab, today), today))
    except ConfigError as error:
        recorder.warn(f"the losses of the lab are not in the Allure report: {error}")
        return facts


def subject_of(item: pytest.Item, case: CombinationCase | None) -> Subject | None:
    """Return the identity of a test: combination, name without file and parameters, and its other parameters."""
    exact = exact_combination_of(item)
    if case is not None:
        combination = case.combination.identity
    elif exact is not None:
        combination = CombinationId.parse(exact.id)
    else:
        return None
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    # The NIC of an exact gate is part of the combination.
    shown = {name: value for name, value in params.items() if name != "exact_gate"}
    given = {name: value for name, value in shown.items() if not isinstance(value, CombinationCase | Missing)}
    parameters: dict[str, object] = {name: value for name, value in given.items() if isinstance(value, _PLAIN)}
    if callspec is not None and len(parameters) < len(given):
        parameters["id"] = callspec.id
    path, *classes, _ = item.nodeid.split("[")[0].split("::")
    test = "::".join([*classes, getattr(item, "originalname", None) or item.name.partition("[")[0]])
    return Subject(combination, test, parameters, path)


def _trends(recorder: RunRecorder, lab: LabOfFile | None, results: Sequence[ResultRecord]) -> list[FigureSeries]:
    """Return the trends of these results. Without a history, a trend has one point."""
    url = recorder.history_url
    try:
        reviewed = load_reviewed(lab) if lab is not None else None
        with open_history(url, reviewed=reviewed) if url is not None else nullcontext() as history:
            return series_with(history, results, _POINTS, recorder.emulated)
    except ConfigError:
        # No history exists before the first run or without SQLAlchemy.
        return series_with(None, results, _POINTS, recorder.emulated)
