"""The outcomes of a change have the same words in the terminal, in Markdown, on the page and in the history."""

from __future__ import annotations

from datetime import UTC, datetime

from pytest_pinet.history.records import points_of
from pytest_pinet.history.text import gate_lines
from pytest_pinet.report.change_table import change_lines
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.page.page import page
from tests.support.change_records import change_run, compared

RUN = change_run(
    [
        compared("pi3b:onboard/pair", "rx", 0.0, "same"),
        compared("pi4b:onboard/pair", "rx", 0.008, "same"),
        compared("pi5:onboard/pair", "rx", 0.007, "same"),
        compared("cm4:onboard/pair", "rx", -0.05, "slower"),
    ]
)
WORDS = {"pi3b": "unchanged", "pi4b": "not slower", "pi5": "not slower", "cm4": "regression"}


def test_a_metric_that_may_be_faster_is_not_called_unchanged() -> None:
    assert RUN.change is not None
    terminal = change_lines(RUN.change, results=RUN.results)
    markdown = summary_markdown(RUN).splitlines()
    html = page([], datetime(2026, 11, 28, tzinfo=UTC), RUN).splitlines()
    history = gate_lines(points_of(RUN)[0])
    for board, word in WORDS.items():
        figure = f"{board}:onboard/pair/tcp-P1-rx"
        loud = word.upper() if word == "regression" else word
        assert [line.endswith(f"%  {loud}") for line in terminal if line.startswith(figure)] == [True]
        assert [line.endswith(f" {word} |") for line in markdown if line.startswith(f"| {figure}")] == [True]
        assert [f"</svg>{word}</span>" in line for line in html if f'<th scope="row">{figure}' in line] == [True]
        assert [line.endswith(f"  {word}") for line in history if line.startswith(f"  {figure}")] == [True]


def test_they_are_counted_apart() -> None:
    assert RUN.change is not None
    terminal = change_lines(RUN.change, results=RUN.results)
    assert "1 regression, 2 not slower, 1 unchanged; 7 turns" in terminal
    assert "<details><summary>2 not slower, 1 unchanged</summary>" in summary_markdown(RUN)
