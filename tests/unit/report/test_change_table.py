"""The answer on a change: head, table and words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pytest_pinet.history.records import points_of
from pytest_pinet.history.text import gate_lines
from pytest_pinet.model.build import BuildSource
from pytest_pinet.model.record.change import BuildRecord, ChangeEntryRecord
from pytest_pinet.model.verdict import GATE, Verdict, change_verdict
from pytest_pinet.report.change_head import bisect_code
from pytest_pinet.report.change_table import change_lines, commit_url, kernel_words, source_lines
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.page.page import page
from tests.support.change_records import change_run, compared


def metric(verdict: Verdict, finding: str = "") -> ChangeEntryRecord:
    return ChangeEntryRecord(id="pi4b:onboard/pair/tcp-P1-tx", direction="", verdict=verdict, text="", finding=finding)


SLOWER, SAME, FASTER = metric(Verdict.FAIL), metric(Verdict.PASS), metric(Verdict.IMPROVED)
UNDECIDED, LAB = metric(Verdict.INCONCLUSIVE), metric(Verdict.ERROR)


@pytest.mark.parametrize(
    ("came", "word", "code", "bisect"),
    [
        ([SAME, FASTER], "pass", 0, 0),
        ([SAME, SLOWER], "regression", 1, 1),
        ([SLOWER, LAB, UNDECIDED], "regression", 1, 1),
        ([SAME, LAB, UNDECIDED], "lab error", 2, 125),
        ([SAME, UNDECIDED], "undecided", 3, 125),
        ([], "undecided", 3, 125),
        ([metric(Verdict.FAIL, "panic")], "regression", 1, 125),
        ([metric(Verdict.FAIL, "no driver"), SAME], "regression", 1, 125),
        ([metric(Verdict.FAIL, "slow link")], "regression", 1, 1),
        ([metric(Verdict.FAIL, "panic"), SLOWER], "regression", 1, 1),
    ],
)
def test_the_verdict_on_a_change_has_a_word_and_exit_codes(
    came: list[ChangeEntryRecord], word: str, code: int, bisect: int
) -> None:
    found = change_verdict(one.verdict for one in came)
    assert (GATE[found].change, GATE[found].exit) == (word, code)
    assert bisect_code(found, came) == bisect


def test_a_broken_exact_board_ends_a_bisection() -> None:
    assert bisect_code(Verdict.ERROR, [SAME, LAB, UNDECIDED], exact=True) == 131
    assert bisect_code(Verdict.FAIL, [LAB, SLOWER], exact=True) == 1
    assert bisect_code(Verdict.INCONCLUSIVE, [UNDECIDED], exact=True) == 125


COMMIT = "0e44d9fed54654d05b4c841b78fb077dac90c249"
LINUS = "git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git"
SOURCE = BuildSource(
    made_by="TuxMake",
    place="/home/me/out",
    tree=f"https://{LINUS}",
    branch="master",
    commit=COMMIT,
    describe="v6.12-rc7-3-g0e44d9fed546",
    compiler="gcc 12",
    config="build-B.config",
)


@pytest.mark.parametrize(
    ("tree", "url"),
    [
        (f"https://{LINUS}", f"https://{LINUS}/commit/?id={COMMIT}"),
        (f"git://{LINUS}", f"https://{LINUS}/commit/?id={COMMIT}"),
        ("https://github.com/raspberrypi/linux.git", f"https://github.com/raspberrypi/linux/commit/{COMMIT}"),
        ("https://gitlab.com/cip-project/linux", f"https://gitlab.com/cip-project/linux/-/commit/{COMMIT}"),
        ("javascript:alert(1)", ""),
        ("ssh://git@host.example.org/linux", ""),
    ],
)
def test_the_page_of_a_commit(tree: str, url: str) -> None:
    assert commit_url(replace(SOURCE, tree=tree)) == url
    assert commit_url(replace(SOURCE, tree=tree, commit="")) == ""


def test_the_short_name_of_a_kernel() -> None:
    assert kernel_words(BuildSource()) == ""
    assert kernel_words(SOURCE) == "v6.12-rc7-3-g0e44d9fed546"
    assert kernel_words(replace(SOURCE, describe="v6.12")) == "v6.12 (0e44d9fed546)"
    assert kernel_words(replace(SOURCE, describe="")) == "commit 0e44d9fed546"


def test_lines_with_their_links() -> None:
    assert source_lines(SOURCE, "runs/1") == [
        (
            f"source: v6.12-rc7-3-g0e44d9fed546, branch master of https://{LINUS}",
            f"https://{LINUS}/commit/?id={COMMIT}",
        ),
        ("built by TuxMake with gcc 12: /home/me/out", ""),
        ("kernel configuration: build-B.config", "runs/1/build-B.config"),
    ]


def test_a_build_without_a_source_has_no_key_for_it() -> None:
    build = BuildRecord(name="x", key="1", release=None, files=(), config=(), cmdline=(), options=(), sysctls=())
    assert "source" not in build.dump()
    assert build.replace(source=SOURCE).dump()["source"]["commit"] == COMMIT


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
