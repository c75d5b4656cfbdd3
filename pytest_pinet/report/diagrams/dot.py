"""Shared parts of the drawings in DOT, the language of Graphviz: quoting, the head, and cables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape

from pytest_pinet.report.diagrams.labels import speed
from pytest_pinet.report.text_wrap import plain

# Characters per line of the head.
_WIDTH = 90
_STYLE = (
    'graph [rankdir=LR, labelloc=t, labeljust=l, fontname="Helvetica", fontsize=13, nodesep=0.3, ranksep=1]',
    'node [shape=box, fontname="Helvetica", fontsize=12]',
    'edge [fontname="Helvetica", fontsize=11]',
)


def quoted(*lines: str) -> str:
    """Return a DOT string. Several lines are left-aligned."""
    escaped = [plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return f'"{escaped[0]}"' if len(escaped) == 1 else '"' + "".join(f"{line}\\l" for line in escaped) + '"'


def html(text: str) -> str:
    """Return the text escaped for an HTML-like label."""
    return escape(plain(text))


def graph(title: str, facts: Sequence[str], body: Iterable[str]) -> str:
    """Return a graph with a head: the title and the facts, each wrapped."""
    head = [title, *(line for fact in facts for line in textwrap.wrap(plain(fact), _WIDTH, break_on_hyphens=False)), ""]
    return "\n".join([f"digraph {quoted(title)} {{", *_STYLE, f"label={quoted(*head)}", *body, "}", ""])


def edge(one: str, other: str, mbps: int, name: str = "") -> str:
    """Return a cable between two ends, labelled with its speed. A faster cable is drawn wider."""
    label = quoted(", ".join(filter(None, (name, speed(mbps)))))
    width = 1 if mbps < 1000 else 2 if mbps < 10_000 else 3.5
    return f'{one} -> {other} [dir=none, color="#59636e", penwidth={width}, label={label}]'
