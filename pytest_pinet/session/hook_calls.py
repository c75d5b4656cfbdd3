"""Calls the hooks of ``hookspecs`` plugin by plugin, so that an error in one plugin does not affect the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.errors import first_line
from pytest_pinet.judge.profile import Profile
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.comparison import StateComparison
from pytest_pinet.measure.figures import Probe
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.record.base import Record
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.traffic import Kselftest, Traffic

Fact = str | int | float | bool
# What a gate call measures.
GateJob = Traffic | Kselftest | StateComparison | Probe
FACTS_KEY: pytest.StashKey[dict[str, Fact]] = pytest.StashKey()


@dataclass(frozen=True)
class GateCall:
    """One call of ``gate.tcp()`` or the like: its test and link, how long it may measure, and the limits."""

    item: pytest.Item
    link: Link
    profile: Profile
    limits: Sequence[Limit] = ()


class HookCalls:
    """Calls the hooks in one process. ``warn`` gets one sentence for each kind of failure of each plugin."""

    def __init__(self, config: pytest.Config, warn: Callable[[str], None]) -> None:
        self._config = config
        self._warn = warn
        self._warned: set[str] = set()

    def combinations(self, combinations: list[tuple[pytest.Item, Combination]]) -> None:
        self._call("pytest_pinet_combinations", config=self._config, combinations=tuple(combinations))

    @contextmanager
    def measurement(self, call: GateCall, job: GateJob) -> Iterator[None]:
        """Call the hooks around one measurement. ``FACTS_KEY`` gets the machine facts that plugins return."""
        item, link, traffic = call.item, call.link, job.traffic if isinstance(job, StateComparison) else job
        self._call("pytest_pinet_before_measurement", item=item, link=link, traffic=traffic)
        item.stash[FACTS_KEY] = self._facts(item, link)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._call("pytest_pinet_after_measurement", item=item, link=link, traffic=traffic, error=error)

    def result(self, result: ResultRecord) -> None:
        self._call("pytest_pinet_result", config=self._config, result=result)

    def run_finished(self, run: RunRecord, folder: Path) -> None:
        self._call("pytest_pinet_run_finished", config=self._config, run=run, folder=folder)

    def _facts(self, item: pytest.Item, link: Link) -> dict[str, Fact]:
        facts: dict[str, Fact] = {}
        for plugin, found in self._call("pytest_pinet_machine_facts", item=item, link=link):
            if not _are_facts(found):
                self._say(
                    f"{plugin} returned machine facts {found!r}; expected a mapping from names to text or numbers"
                )
                continue
            for name in found.keys() & facts.keys():
                self._say(f"{plugin} returned the machine fact {name!r}, which another plugin returned before")
            facts = {**found, **facts}
        return facts

    def _call(self, name: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Return plugin names with the values that they returned, except None. Each plugin gets its own copies."""
        plugins = self._config.pluginmanager
        # A conftest gets the calls for tests in its own folder only.
        hooks = arguments["item"].ihook if "item" in arguments else self._config.hook
        found = []
        # The plugin that was registered last is called first, as pluggy does.
        for one in reversed(getattr(hooks, name).get_hookimpls()):
            others = [plugin for plugin in plugins.get_plugins() if plugin is not one.plugin]
            given = {word: deepcopy(value) if isinstance(value, Record) else value for word, value in arguments.items()}
            try:
                found += [(one.plugin_name, value) for value in plugins.subset_hook_caller(name, others)(**given)]
            except Exception as error:
                what = f"{type(error).__name__}: {first_line(error)}"
                self._say(f"hook {name} of plugin {one.plugin_name} raised {what}; no result is lost")
        return found

    def _say(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)


def _are_facts(found: object) -> bool:
    """Return whether results.json can hold these facts."""
    if not isinstance(found, Mapping):
        return False
    finite = all(not isinstance(value, float) or math.isfinite(value) for value in found.values())
    return finite and all(isinstance(name, str) and isinstance(value, Fact) for name, value in found.items())
