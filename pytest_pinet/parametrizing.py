"""Tests become one for each combination that they ask for; what the command line leaves out is deselected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_pinet import collect
from pytest_pinet.collect import Case
from pytest_pinet.errors import Where
from pytest_pinet.markers import Request, read_marker
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab


def case_of(item: pytest.Item | None) -> Case | None:
    """What a test was parametrised with, if it was and the lab has it."""
    callspec = getattr(item, "callspec", None)
    value = callspec.params.get("link") if callspec is not None else None
    return value if isinstance(value, Case) else None


class Parametrizing:
    """Registered as a plugin; ``axes`` has the globs of the command line."""

    def __init__(self, config: pytest.Config, lab: Lab | None, axes: Mapping[str, Sequence[str]]) -> None:
        self._config = config
        self._lab = lab
        self._axes = axes
        self._marked: set[str] = set()

    def parametrize(self, metafunc: pytest.Metafunc, markers: Sequence[pytest.Mark]) -> None:
        """One parameter for each combination; what is missing becomes a skipped test that says so."""
        path = metafunc.definition.path
        name = f"{path.name}::{metafunc.definition.name}"
        line = metafunc.definition.location[1]
        where = Where(metafunc.definition.location[0], None if line is None else line + 1)
        request = read_marker(name, markers, where)
        if self._lab is None:
            reason = "no lab: pass --pinet-lab FILE, set PINET_LAB or the ini key pinet_lab"
            parameters = [pytest.param(None, id="no-lab", marks=pytest.mark.skip(reason=reason))]
        else:
            parameters = [self._parameter(found, request) for found in collect.combinations(self._lab, request)]
        metafunc.parametrize("link", parameters, indirect=True)

    def _parameter(self, found: Combination | collect.Missing, request: Request) -> Any:
        if isinstance(found, collect.Missing):
            return pytest.param(None, id=found.id, marks=pytest.mark.skip(reason=found.reason))
        marks = []
        for name, what in collect.marker_names(found, request).items():
            if name not in self._marked:
                self._marked.add(name)
                self._config.addinivalue_line("markers", f"{name}: combinations with {what} (automatic)")
            marks.append(getattr(pytest.mark, name))
        return pytest.param(Case(found, request), id=found.id, marks=marks)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what the options of the axes leave out; tests that take a boot run last, alike ones in a row."""
        items[:] = collect.fewest_boots(items, case_of)
        if not any(self._axes.values()):
            return
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            is_ours = item.get_closest_marker("pinet") is not None and "link" in getattr(item, "fixturenames", ())
            case = case_of(item)
            wanted = not is_ours or (case is not None and collect.selected(case.combination, self._axes))
            (kept if wanted else dropped).append(item)
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept
