"""``pinet report`` after an A/B run, which is not part of any trend."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_pinet.cli import pinet
from tests.support.change_session import Bench, fresh_plans
from tests.support.page_reader import Reader

TEST = """
import pytest

@pytest.mark.pinet(board="pi4b")
def test_rate(link, gate):
    gate.tcp(link, direction="rx")
"""


@pytest.fixture
def text(pytester: pytest.Pytester) -> str:
    """Return the page of a change in which B makes one NIC slower and one not."""
    bench = Bench(pytester)
    bench.plan("PLAN = Plan(ratio={'ax88179': 0.95})")
    pytester.makepyfile(TEST)
    with fresh_plans(pytester.path):
        bench.run()
        done = CliRunner().invoke(pinet, ["report", "-o", "report.html"])
    assert done.exit_code == 0, done.output
    assert "1 change" in done.output
    return (pytester.path / "report.html").read_text(encoding="utf-8")


def test_it_shows_the_newest_change_though_no_trend_has_it(text: str) -> None:
    reader = Reader(text)

    assert reader.wrong == []
    assert reader.open == []
    assert "new must not be merged: 1 of 2 metrics slower" in text
    assert "No answer" not in text
    assert "Nothing was measured yet" not in text
    # Every turn of both results is drawn, and has a text alternative.
    drawings = [found["aria-label"] for tag, found in reader.tags if tag == "svg" and "aria-label" in found]
    turns = [label for label in drawings if label is not None and label.startswith("Turns: A ")]
    assert len(turns) == 2
    assert all(re.match(r"Turns: A 94\d\.\d Mbit/s, B \d{3}\.\d Mbit/s, ", label) for label in turns)
    assert "Look first at: tcp-segmentation-offload: on" in text


def test_a_folder_without_any_run_has_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(pinet, ["report"])

    assert done.exception is not None
    assert "to report; run pytest first" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
