"""Hooks for other plugins and for conftest files, each with an example.

Implement a hook in a ``conftest.py`` or in a plugin, with as many of its arguments as you need. A plugin that also runs
without pytest-pinet marks its hooks with ``@pytest.hookimpl(optionalhook=True)``. If a hook raises an exception, the
measurement goes on, its result is kept, and a red line at the end of the run names the plugin.

With ``pytest -n``, workers measure and the controller keeps the results. Each docstring says which process calls the
hook. Without ``-n``, one process does both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_pinet.lab.link.link import Link
    from pytest_pinet.measure.figures import Probe
    from pytest_pinet.model.combination import Combination
    from pytest_pinet.model.record.result import ResultRecord, RunRecord
    from pytest_pinet.model.traffic import Traffic
    from pytest_pinet.session.exact_gate import ExactMachines


@pytest.hookspec
def pytest_pinet_combinations(config: pytest.Config, combinations: Sequence[tuple[pytest.Item, Combination]]) -> None:
    """Get each test of this run with its combination, in the order in which the tests run.

    Called once, after the command line has selected the tests. Combinations that the lab lacks are not included. Each
    worker calls the hook with all tests. The controller does not call it.

    ::

        def pytest_pinet_combinations(config, combinations):
            boards = {combination.board for _, combination in combinations}
            reserve_boards(boards)
    """


@pytest.hookspec
def pytest_pinet_before_measurement(item: pytest.Item, link: Link, traffic: Traffic | Probe) -> None:
    """Act right before a gate call measures. The nodes are up, the link is checked, and no traffic runs yet.

    Called by the process that measures (a worker), once for each gate call. If two builds are compared, it is called
    for each gate call in each boot. The hook can skip the test by ``pytest.skip()``.

    ::

        def pytest_pinet_before_measurement(item, link, traffic):
            start_capture(link.dut.ip, name=item.name)
    """


@pytest.hookspec
def pytest_pinet_after_measurement(
    item: pytest.Item, link: Link, traffic: Traffic | Probe, error: BaseException | None
) -> None:
    """Act right after a gate call measured. ``error`` is the exception that ended the measurement, or None.

    Called by the same process as ``pytest_pinet_before_measurement``, and as often. The verdict is not known yet:
    ``pytest_pinet_result`` gets it.

    ::

        def pytest_pinet_after_measurement(item, link, traffic, error):
            stop_capture(keep=error is not None)
    """


@pytest.hookspec
def pytest_pinet_machine_facts(item: pytest.Item, link: Link) -> Mapping[str, str | int | float | bool] | None:
    """Return facts about the nodes, the room or the CI job. The result keeps them under ``facts``.

    Called by the process that measures (a worker), right before the traffic starts. If two plugins return the same
    name, the plugin that is called first wins, and a line at the end of the run says so.

    ::

        def pytest_pinet_machine_facts(item, link):
            return {"room_celsius": read_thermometer(), "ci_job": os.environ.get("CI_JOB_ID", "")}
    """


@pytest.hookspec
def pytest_pinet_result(config: pytest.Config, result: ResultRecord) -> None:
    """Get one judged result, as results.json holds it. A test that an error ended has a result without values.

    Called by the process that keeps the results (the controller), once for each result, after the result is on disk. If
    a failure was measured on a second board, it is called again, with ``result.second_board`` and the same ``test``,
    ``id`` and ``started``. ``result`` is a copy: changing it has no effect.

    ::

        def pytest_pinet_result(config, result):
            if result.verdict == "fail":
                send_message(f"{result.id}: {result.message}")
    """


@pytest.hookspec
def pytest_pinet_run_finished(config: pytest.Config, run: RunRecord, folder: Path) -> None:
    """Get the whole run, after it is in the history. ``run`` is a copy of the content of ``folder/results.json``.

    Called once, by the process that keeps the results (the controller). After Ctrl-C it is called with
    ``run.complete`` False. A run that measured nothing does not call it.

    ::

        def pytest_pinet_run_finished(config, run, folder):
            upload(folder / "results.json", key=run.run)
    """


@pytest.hookspec(firstresult=True)
def pytest_pinet_exact_machines(config: pytest.Config) -> ExactMachines | None:
    """Return what boots builds on exact boards, in place of QEMU on this machine. None leaves it to other plugins.

    Called once by each process that runs exact gates. The class has the members of
    ``pytest_pinet.session.exact_gate.ExactMachines``.

    ::

        def pytest_pinet_exact_machines(config):
            return MachinesOfTheBuildFarm(config.getoption("--farm"))
    """
