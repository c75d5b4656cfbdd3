"""What connects a session to Allure; imported only with ``--alluredir``, which allure-pytest declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from pytest_pinet.config.baselines import load_baselines
from pytest_pinet.config.lab_of_file import LabOfFile
from pytest_pinet.errors import ConfigError
from pytest_pinet.history.history import History
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.report.allure.identity import Subject
from pytest_pinet.report.allure.listener import AllureResults
from pytest_pinet.report.allure.run import AllureRun
from pytest_pinet.report.series import FigureSeries
from pytest_pinet.report.trends import run_facts, series_with
from pytest_pinet.session.run_recorder import RunRecorder

CaseOf = Callable[[pytest.Item | None], CombinationCase | None]
_POINTS = 60
# Their text is the same in every process and every version; that of other objects may hold an address.
_PLAIN = (str, int, float, bool, type(None))


def attach(config: pytest.Config, directory: str, keeper: RunRecorder, case_of: CaseOf, lab: LabOfFile | None) -> None:
    """Fill in the results of this process, and add what concerns the whole run where it is the one that reports."""
    path = Path(directory).absolute()
    if not hasattr(config, "workerinput"):
        run = AllureRun(
            config, path, lambda: keeper.record, lambda record: run_facts(record, keeper.history_url), keeper.warn
        )
        config.pluginmanager.register(run, "pinet-allure-run")
    if not getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
        results = AllureResults(
            path,
            lambda item: subject_of(item, case_of(item)),
            lambda found: _trends(keeper, lab, found),
            lambda item: _nodes(case_of(item)),
            lambda: keeper.folder.path,
            keeper.warn,
        )
        config.pluginmanager.register(results, "pinet-allure-results")
        config.add_cleanup(results.start())


def subject_of(item: pytest.Item, case: CombinationCase | None) -> Subject | None:
    """What a test stands for: its combination, its name without file and parameters, and its other parameters."""
    if case is None:
        return None
    combination = case.combination
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    given = {name: value for name, value in params.items() if not isinstance(value, CombinationCase)}
    parameters: dict[str, object] = {name: value for name, value in given.items() if isinstance(value, _PLAIN)}
    if callspec is not None and len(parameters) < len(given):
        parameters["id"] = callspec.id
    path, *classes, _ = item.nodeid.split("[")[0].split("::")
    test = "::".join([*classes, getattr(item, "originalname", None) or item.name.partition("[")[0]])
    return Subject(
        combination.board,
        combination.nic,
        combination.topology.name,
        test,
        parameters,
        path,
        tuning=combination.tuning.key,
    )


def _nodes(case: CombinationCase | None) -> Iterable[str]:
    return [node.name for node in case.combination.nodes] if case is not None else []


def _trends(keeper: RunRecorder, lab: LabOfFile | None, results: Sequence[ResultRecord]) -> list[FigureSeries]:
    """With the history where there is one; without it a trend has one point."""
    url = keeper.history_url
    try:
        baselines = load_baselines(lab) if lab is not None else {}
        with History.open(url, baselines) if url is not None else nullcontext() as history:
            return series_with(history, results, _POINTS, keeper.emulated)
    except ConfigError:
        # There is none before the first run, nor without SQLAlchemy.
        return series_with(None, results, _POINTS, keeper.emulated)
