"""The comment on a pull request, whose texts may be written by the author of the pull request."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.comment import MARK, comment_markdown
from pytest_pinet.report.markdown import escaped, folded, summary_markdown
from tests.support.exact_records import build, records, run_of
from tests.support.hostile import HOSTILE

MARKUP = (
    "<img src=x onerror=alert(1)>", "<!--", "</details><script>alert(1)</script>", "**bold** _em_ ~~no~~", "`code`",
    "[text](https://evil.example)", "![](https://evil.example/x.png)", "<https://evil.example>", "a | b | c",
    "&lt;b&gt;", "@team", "x@team y @org/team", "fixes #12", "!12 GH-12 o/r#12 $12 %v1 ~bug &3 ^alert", "https://evil.example",
    "see www.evil.example", "/close", "/approve\n/merge", "```\n@team", "\n\n# head\n\n@team", "\\", "\\@team \\<b>",
    "$\\frac{1}{2}$", "[[_TOC_]]", "{+ added +}", *filter(None, HOSTILE),
)  # fmt: skip
# What GitHub and GitLab look for in the text that Markdown leaves, outside of code.
REFERENCES = re.compile(r"@\w|(?<!\w)[#!$%~&^]\w|#\d|\bGH-\d|\w://|\bwww\.|^\s*/\w", re.MULTILINE)
OURS = {"h2", "p", "ul", "li", "strong", "sub", "details", "summary", "pre", "code", "br"}
OURS |= {"table", "thead", "tbody", "tr", "th", "td"}


class Page(HTMLParser):
    """What a browser would make of a comment: its tags, and its text outside of code."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self._code = 0
        self.feed(MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough").render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert all(name in ("style", "class", "open", "align") for name, _ in attrs), (tag, attrs)
        self.tags.add(tag)
        self._code += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"

    def handle_comment(self, data: str) -> None:
        assert f"<!--{data}-->" == MARK

    def handle_data(self, data: str) -> None:
        self.text += "" if self._code else data


def hostile_run(text: str) -> RunRecord:
    """Return a run in which each text that a pull request chooses is ``text``."""
    found = records("slow")
    exact = found[0].exact
    assert exact is not None
    functions = tuple(
        replace(one, name=text, module=text, was=text, source=text, missed=text) for one in exact.functions
    )
    exact = exact.model_copy(update={"functions": functions, "device": text, "no_functions": text})
    results = [found[0].model_copy(update={"exact": exact, "message": text}), *found[1:]]
    run = run_of(results, "slow")
    assert run.change is not None
    bad = build(text, text).model_copy(update={"release": text, "cmdline": (text,)})
    head = run.change.model_copy(update={"a": bad, "b": bad, "sentence": text, "changed": (text,)})
    return run.model_copy(update={"change": head, "meaning": text, "lab": text, "pinet": text})


@pytest.mark.parametrize("text", MARKUP)
def test_a_hostile_text_becomes_no_markup_mention_reference_or_command(text: str) -> None:
    run = hostile_run(text)
    for markdown in (
        comment_markdown({"board": run, text: f"why: {text}"}, [text], "1" * 40),
        summary_markdown(run, losses=[text, text]),
        folded(text, [text, text]),
    ):
        page = Page(markdown)
        assert page.tags <= OURS
        assert REFERENCES.findall(page.text) == []
        assert {"strong", "em"} & page.tags <= {"strong"}


@pytest.mark.parametrize(
    "text", ["r8152_poll [r8152]", "drivers/net/usb/r8152.c:1302", "a*b <c> & d", "v6.12", "Jürgen"]
)
def test_an_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert Page(f"- {escaped(text)}").text.strip() == text


def test_each_board_has_one_line_and_functions_follow() -> None:
    runs = {"macb": run_of(records("slow"), "slow"), "genet": run_of(records("good"), "good")}
    lines = comment_markdown(
        {**runs, "igb": "no results"}, [], "1234567890abcdef", "https://example.org/1"
    ).splitlines()

    assert lines[0] == MARK
    assert lines[1].startswith("- \u274c **macb**: slow must not be merged: 1 of 2 metrics slower, by 7.7 %")
    assert lines[2] == "- \u2705 **genet**: good may be merged: none of 2 metrics is slower than with the stock kernel."
    assert lines[3] == "- \u2753 **igb**: no answer: no results"
    assert lines.count("Functions of macb that changed, in instructions per packet (requests: per answer)") == 1
    assert lines[-1] == "<sub>commit 1234567890ab, [the job](https://example.org/1)</sub>"


def test_a_comment_is_never_longer_than_a_forge_accepts() -> None:
    long = hostile_run("@" * 10_000)
    assert len(comment_markdown({f"{number}{'x' * 600}": long for number in range(200)}, ["y" * 90_000])) < 65_536


@pytest.mark.parametrize(("commit", "link"), [("HEAD", ""), ("", "javascript:alert(1)"), ("", "https://x/)[y](z")])
def test_a_commit_and_an_address_are_checked(commit: str, link: str) -> None:
    with pytest.raises(ConfigError, match=r"--(commit|link): '.*' is no (commit|address); expected"):
        comment_markdown({}, [], commit, link)
