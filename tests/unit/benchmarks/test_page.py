"""The size of the page of the benchmark. The time depends on the machine, so only the benchmark measures it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.page import MOST_MB, RUNS, make
from pytest_pinet.cli import pinet
from tests.support.commands import go_without_allure


@pytest.mark.slow
def test_the_page_of_500_combinations_and_1000_runs_is_smaller_than_10_mb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_without_allure(tmp_path, monkeypatch)
    make(tmp_path / "history.db", RUNS)
    done = CliRunner().invoke(pinet, ["report", "--history", "history.db", "-o", "page.html"])
    assert done.exit_code == 0, done.exception
    page = tmp_path / "page.html"
    text = page.read_text(encoding="utf-8")
    assert "of 500 combinations, " in text
    # Every tenth metric moved.
    assert "50 have an open loss of " in text
    assert page.stat().st_size < MOST_MB * 1e6
