"""Formats the output of ``pinet doctor``: a line for each check, then the details of each fault."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_pinet.doctor.finding import SEVERITY, Finding, Status

WIDTH = 80
_NAME_WIDTH = 23
_MARKS = {Status.OK: "ok", Status.UNKNOWN: "?", Status.NOT_CHECKED: "-", Status.WRONG: "BAD"}
_INDENT = " " * 7


def lines(check: str, findings: Sequence[Finding]) -> list[str]:
    """Return the lines of one check, at most 80 columns if the words can be wrapped."""
    names = dict.fromkeys(finding.node for finding in findings)
    per_node = {name: worst(finding for finding in findings if finding.node == name) for name in names}
    nodes = {name: status for name, status in per_node.items() if name is not None}
    statuses = set(per_node.values())
    mark = Status.OK
    if Status.WRONG in statuses:
        mark = Status.WRONG
    elif statuses == {Status.NOT_CHECKED}:
        mark = Status.NOT_CHECKED
    elif Status.UNKNOWN in statuses:
        mark = Status.UNKNOWN
    summary = _summary(nodes, findings)
    head = f"{_MARKS[mark]:<5}{check:<{_NAME_WIDTH}}{summary}".rstrip()
    return [*_wrap(head, " " * (5 + _NAME_WIDTH)), *_details(findings, nodes)]


def worst(findings: Iterable[Finding]) -> Status:
    """Return the most severe status of several findings."""
    return max((finding.status for finding in findings), key=SEVERITY.index, default=Status.OK)


def _summary(nodes: Mapping[str, Status], findings: Sequence[Finding]) -> str:
    if not nodes:
        verbs = {Status.OK: "", Status.NOT_CHECKED: "not checked: "}
        return "; ".join(verbs[finding.status] + finding.message for finding in findings if finding.status in verbs)
    counts = Counter(nodes.values())
    said = {finding.message for finding in findings}
    more = f": {said.pop()}" if len(said) == 1 and said != {""} else ""
    if set(counts) == {Status.OK}:
        return f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}{more}"
    if set(counts) == {Status.NOT_CHECKED}:
        return f"{len(nodes)} {Status.NOT_CHECKED}{more}"
    return ", ".join(f"{counts[status]} {status}" for status in SEVERITY if counts[status])


def _details(findings: Sequence[Finding], nodes: Mapping[str, Status]) -> list[str]:
    told = []
    # Nodes with the same message share a line.
    groups: dict[tuple[Status, str, str], list[str]] = {}
    for finding in sorted(findings, key=lambda f: -SEVERITY.index(f.status)):
        if finding.status in (Status.WRONG, Status.UNKNOWN):
            groups.setdefault((finding.status, finding.message, finding.act), []).append(finding.node or "")
    for (_, message, act), who in groups.items():
        named = who == [""] or (len(who) == 1 and who[0] in message)
        told += _wrap(f"{_INDENT}{'' if named else _names(who, nodes) + ': '}{message}", _INDENT + "  ")
        if act:
            told += _wrap(f"{_INDENT}  -> {act}", _INDENT + "     ")
    return told + _not_checked(findings)


def _not_checked(findings: Sequence[Finding]) -> list[str]:
    """Return one line for all findings that were not checked; none if the first line already says it."""
    left = [finding for finding in findings if finding.status is Status.NOT_CHECKED]
    if not left or (len(left) == len(findings) and len({finding.message for finding in left}) == 1):
        return []
    words = ", ".join(f"{finding.node} ({finding.message})" for finding in left)
    return _wrap(f"{_INDENT}{Status.NOT_CHECKED}: {words}", _INDENT + "  ")


def _names(who: Sequence[str], nodes: Mapping[str, Status]) -> str:
    if len(who) > 1 and len(set(who)) == len(nodes):
        return f"all {len(nodes)}"
    return ", ".join(dict.fromkeys(who))


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [
        text
    ]
