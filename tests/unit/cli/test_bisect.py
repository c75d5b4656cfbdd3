"""``pinet bisect``: its answer."""

from __future__ import annotations

import pytest

from pytest_pinet.cli.bisect import _answer
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.tree.search import SearchStep
from pytest_pinet.tree.sources import Commit

COMMIT = Commit("a" * 40, ("b" * 40,), "slow", "A. Developer <dev@example.com>", ())


@pytest.mark.parametrize("on_exact", ["", "r8152 frame-60-rx: r8152_poll [r8152] +4.00"])
def test_a_lab_confirms_a_commit_and_exact_boards_name_the_function(on_exact: str) -> None:
    gate = SearchStep(why="pi4b tx: 2.1 % slower", gated=COMMIT.id, verdict=Verdict.FAIL)
    lines = list(_answer([COMMIT], 0.97, gate, on_exact))
    assert lines[:3] == [
        f"found: {COMMIT.id} slow",
        "author: A. Developer <dev@example.com>",
        "probability 97.0%; against its parent: pi4b tx: 2.1 % slower",
    ]
    assert lines[3:] == ([f"on exact boards, the bad commit against the good one: {on_exact}"] if on_exact else [])
