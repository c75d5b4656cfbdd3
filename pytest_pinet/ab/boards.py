"""Tests by the board that they are of: each board is booted for all of them, and left once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.model.lab import Node

CaseOf = Callable[[pytest.Item | None], CombinationCase | None]


class Boards:
    """Registered as a plugin; a board is the node under test."""

    def __init__(self, case_of: CaseOf) -> None:
        self._case_of = case_of
        self._items: dict[str, list[pytest.Item]] = {}

    def board(self, item: pytest.Item) -> str:
        """The node under test; empty for a test that needs no lab."""
        case = self._case_of(item)
        return "" if case is None else case.combination.dut.node.name

    def kept(self, nextitem: pytest.Item | None) -> list[Node]:
        """The nodes that what comes next needs: all tests of its board."""
        found: dict[str, Node] = {}
        for item in self._items.get(self.board(nextitem), []) if nextitem is not None else []:
            case = self._case_of(item)
            for node in case.combination.nodes if case is not None else ():
                found[node.name] = node
        return list(found.values())

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests of one board come in a row; all others keep their places."""
        ours = [place for place, item in enumerate(items) if self.board(item)]
        boards = list(dict.fromkeys(self.board(items[place]) for place in ours))
        in_rows = sorted((items[place] for place in ours), key=lambda item: boards.index(self.board(item)))
        for place, item in zip(ours, in_rows, strict=True):
            items[place] = item

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Now it is known what is measured."""
        for item in session.items:
            if board := self.board(item):
                self._items.setdefault(board, []).append(item)
