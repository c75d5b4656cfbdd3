"""With ``pytest -n``: what a worker must know of the builds, and what it tells of its boards when it ends."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_pinet.ab.boots import BuildBooter
from pytest_pinet.errors import ChangedBuildError, ConfigError, UnsupportedError

_TURNS, _REFUSED, _MISTAKE = "pinet_turns", "pinet_refused", "pinet_refused_mistake"
_KEYS = "pinet_builds"


class WorkerReport:
    """Registered as a plugin in every process of a session with a build under test."""

    def __init__(self, config: pytest.Config, boots: BuildBooter) -> None:
        self._config = config
        self._boots = boots

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """In the controller."""
        node.workerinput[_KEYS] = self._boots.asked.keys

    def pytest_sessionstart(self) -> None:
        """In a worker. It has read the builds itself: they must be those of the whole run."""
        keys = getattr(self._config, "workerinput", {}).get(_KEYS)
        if keys is not None and keys != self._boots.asked.keys:
            self._boots.refused = ChangedBuildError(
                "a file of a build changed while the workers of this run read it: leave a build as it is while it is "
                "gated, or gate a copy of it"
            )

    def pytest_sessionfinish(self) -> None:
        """In a worker."""
        output = getattr(self._config, "workeroutput", None)
        if output is None:
            return
        output[_TURNS] = len(self._boots.made)
        if (refused := self._boots.refused) is not None:
            output[_REFUSED] = str(refused)
            output[_MISTAKE] = isinstance(refused, ConfigError)

    # After those who look after the worker's nodes and warnings, since this may end the run.
    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """In the controller. Ends the run where one of its workers has ended its own, and why."""
        told = getattr(node, "workeroutput", {})
        # One that was interrupted goes down twice, the second time with an error.
        if error or _TURNS not in told:
            return
        self._boots.turns_of_workers += told[_TURNS]
        if _REFUSED in told:
            why = told[_REFUSED]
            self._boots.refused = ConfigError(why) if told[_MISTAKE] else UnsupportedError(why)
            pytest.exit(why, returncode=pytest.ExitCode.USAGE_ERROR)
