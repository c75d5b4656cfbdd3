"""Parametrizes each test with its combinations, and deselects combinations by the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_pinet.errors import Where
from pytest_pinet.matrix import expansion
from pytest_pinet.matrix.expansion import CombinationCase, Request
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.session.arguments import read_marker
from pytest_pinet.session.hook_calls import HookCalls


def case_of(item: pytest.Item | None) -> CombinationCase | None:
    """Return the combination of a test; None if the test has none, or the lab lacks it."""
    found = _parameter_of(item)
    return found if isinstance(found, CombinationCase) else None


def is_parametrized(item: pytest.Item) -> bool:
    """Return whether a test measures a link, also a link that the lab lacks."""
    return isinstance(_parameter_of(item), CombinationCase | expansion.Missing)


def _parameter_of(item: pytest.Item | None) -> object:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("link")


class Parametrizer:
    """Registered as a plugin. ``axes`` has the globs of the command line."""

    def __init__(
        self, config: pytest.Config, lab: Lab | None, axes: Mapping[str, Sequence[str]], hooks: HookCalls
    ) -> None:
        self._config = config
        self._lab = lab
        self._axes = axes
        self._hooks = hooks
        self._marked: set[str] = set()

    def parametrize(self, metafunc: pytest.Metafunc, markers: Sequence[pytest.Mark]) -> None:
        """Add one parameter for each combination. One that the lab lacks becomes a skipped test with the reason."""
        path = metafunc.definition.path
        name = f"{path.name}::{metafunc.definition.name}"
        line = metafunc.definition.location[1]
        where = Where(metafunc.definition.location[0], None if line is None else line + 1)
        request = read_marker(name, markers, where)
        if self._lab is None:
            reason = "no lab: pass --pinet-lab FILE, set PINET_LAB or the ini key pinet_lab"
            parameters = [self._parameter(expansion.Missing("no-lab", reason), request)]
        else:
            parameters = [self._parameter(found, request) for found in expansion.combinations(self._lab, request)]
        metafunc.parametrize("link", parameters, indirect=True)

    def _parameter(self, found: Combination | expansion.Missing, request: Request) -> Any:
        if isinstance(found, expansion.Missing):
            return pytest.param(found, id=found.id, marks=pytest.mark.skip(reason=found.reason))
        marks = []
        for name, what in expansion.marker_names(found, request).items():
            if name not in self._marked:
                self._marked.add(name)
                self._config.addinivalue_line("markers", f"{name}: combinations with {what} (automatic)")
            marks.append(getattr(pytest.mark, name))
        return pytest.param(CombinationCase(found, request), id=found.id, marks=marks)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Apply the options that select combinations. Move tests that need a boot to the end, sorted by their boot."""
        items[:] = expansion.fewest_boots(items, case_of)
        if not any(self._axes.values()):
            return
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            is_ours = item.get_closest_marker("pinet") is not None and is_parametrized(item)
            case = case_of(item)
            wanted = not is_ours or (case is not None and expansion.selected(case.combination, self._axes))
            (kept if wanted else dropped).append(item)
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Call the hook for other plugins once no test is deselected any more."""
        found = [(item, case.combination) for item in session.items if (case := case_of(item)) is not None]
        if found:
            self._hooks.combinations(found)
