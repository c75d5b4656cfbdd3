"""Hooks for other plugins and for conftest files, each with an example.

Implement one in a ``conftest.py`` or in a plugin, with as many of its arguments as you need. A plugin that also runs
without pytest-pinet marks its hooks with ``@pytest.hookimpl(optionalhook=True)``. An exception in a hook becomes one
red line at the end of the run that names the plugin; the measurement goes on and its result is kept.

Under ``pytest -n`` workers measure and the controller keeps the results. Each docstring says which of these processes
calls the hook; without ``-n`` it is the only one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_pinet.lab.link.link import Link
    from pytest_pinet.model.combination import Combination
    from pytest_pinet.model.ping import Ping
    from pytest_pinet.model.record.result import ResultRecord
    from pytest_pinet.model.record.run import RunRecord
    from pytest_pinet.model.traffic import Traffic


@pytest.hookspec
def pytest_pinet_combinations(config: pytest.Config, combinations: Sequence[tuple[pytest.Item, Combination]]) -> None:
    """Look at what the run will measure: each test with its combination, in the order in which they run.

    Called once, after the options of the command line have chosen. Combinations that the lab lacks are not there. Each
    worker calls it, with all tests; the controller does not.

    ::

        def pytest_pinet_combinations(config, combinations):
            boards = {combination.board for _, combination in combinations}
            reserve_boards(boards)
    """


@pytest.hookspec
def pytest_pinet_before_measurement(item: pytest.Item, link: Link, traffic: Traffic | Ping) -> None:
    """Act right before a gate call measures: the nodes are up, the link is checked, no traffic runs yet.

    Called by the process that measures (a worker), for each gate call; where two builds are compared for each call in
    each boot. ``pytest.skip()`` in it skips the test.

    ::

        def pytest_pinet_before_measurement(item, link, traffic):
            start_capture(link.dut.ip, name=item.name)
    """


@pytest.hookspec
def pytest_pinet_after_measurement(
    item: pytest.Item, link: Link, traffic: Traffic | Ping, error: BaseException | None
) -> None:
    """Act right after a gate call measured, or after ``error`` ended the measurement (None: nothing did).

    Called by the same process and as often as ``pytest_pinet_before_measurement``. What the verdict is comes with
    ``pytest_pinet_result``.

    ::

        def pytest_pinet_after_measurement(item, link, traffic, error):
            stop_capture(keep=error is not None)
    """


@pytest.hookspec
def pytest_pinet_machine_facts(item: pytest.Item, link: Link) -> Mapping[str, str | int | float | bool] | None:
    """Return what else was known of the nodes, the room or the job; it stands as ``facts`` in the result.

    Called by the process that measures (a worker), right before traffic starts. Of two plugins that return the same
    name the first one called wins, and a line at the end of the run says so.

    ::

        def pytest_pinet_machine_facts(item, link):
            return {"room_celsius": read_thermometer(), "ci_job": os.environ.get("CI_JOB_ID", "")}
    """


@pytest.hookspec
def pytest_pinet_result(config: pytest.Config, result: ResultRecord) -> None:
    """Look at one judged result, as it stands in results.json; also one without values, of an error.

    Called by the process that keeps the results (the controller), once for each result, when it is on disk. ``result``
    is a copy: a change of it changes nothing.

    ::

        def pytest_pinet_result(config, result):
            if result["verdict"] == "fail":
                send_message(f"{result['id']}: {result['message']}")
    """


@pytest.hookspec
def pytest_pinet_run_finished(config: pytest.Config, run: RunRecord, folder: Path) -> None:
    """Look at the whole run: ``run`` is a copy of what ``folder/results.json`` holds; the history has it, too.

    Called once, by the process that keeps the results (the controller), also after Ctrl-C (``run["complete"]`` is False
    then). A run that measured nothing does not call it.

    ::

        def pytest_pinet_run_finished(config, run, folder):
            upload(folder / "results.json", key=run["run"])
    """
