"""The findings of a check, their JSON, and their text: a line for each check, then the details of each fault."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.errors import ConfigError, LabError, UnsupportedError

WIDTH = 80
_NAME_WIDTH = 23
_INDENT = " " * 7


class Status(StrEnum):
    """The result of a check, the least severe first.

    ``unknown`` is neither good nor bad: the lab gives no information about it. ``not checked``: an earlier check that
    this one depends on has failed.
    """

    OK = "ok"
    UNKNOWN = "unknown"
    NOT_CHECKED = "not checked"
    WRONG = "wrong"


# The status of a node is the last of these among its findings.
SEVERITY = tuple(Status)
_MARKS = {Status.OK: "ok", Status.UNKNOWN: "?", Status.NOT_CHECKED: "-", Status.WRONG: "BAD"}


@dataclass(frozen=True)
class Finding:
    """One result of one check: of a node, or (``node`` None) of the lab as a whole.

    ``act`` says who fixes a fault and with which command. ``mistake`` marks an error in what the user wrote. ``shown``:
    the message is printed although nothing is wrong.
    """

    status: Status
    node: str | None = None
    message: str = ""
    act: str = ""
    mistake: bool = False
    shown: bool = False

    @classmethod
    def of(cls, error: Exception, node: str | None = None) -> Finding:
        """Return the finding of an error: wrong, or unknown if the hardware gives no information."""
        if isinstance(error, ConfigError):
            return cls(Status.WRONG, node, str(error), mistake=True)
        if isinstance(error, LabError):
            return cls(Status.WRONG, node, error.message, error.act)
        return cls(Status.UNKNOWN if isinstance(error, UnsupportedError) else Status.WRONG, node, str(error))

    def as_json(self, check: str) -> dict[str, str | None]:
        """Return one entry of ``pinet doctor --json``."""
        entry = {"check": check, "status": str(self.status), "node": self.node}
        return {**entry, "message": self.message, "act": self.act}


def lines(check: str, findings: Sequence[Finding]) -> list[str]:
    """Return the lines of one check, at most 80 columns if the words can be wrapped."""
    names = dict.fromkeys(finding.node for finding in findings)
    worst = {name: _worst(finding for finding in findings if finding.node == name) for name in names}
    nodes = {name: status for name, status in worst.items() if name is not None}
    statuses = set(worst.values())
    mark = Status.OK
    if Status.WRONG in statuses:
        mark = Status.WRONG
    elif statuses == {Status.NOT_CHECKED}:
        mark = Status.NOT_CHECKED
    elif Status.UNKNOWN in statuses:
        mark = Status.UNKNOWN
    head = f"{_MARKS[mark]:<5}{check:<{_NAME_WIDTH}}{_summary(nodes, findings)}".rstrip()
    return [*_wrap(head, " " * (5 + _NAME_WIDTH)), *_details(findings, nodes), *_not_checked(findings)]


def _worst(findings: Iterable[Finding]) -> Status:
    return max((finding.status for finding in findings), key=SEVERITY.index)


def _summary(nodes: Mapping[str, Status], findings: Sequence[Finding]) -> str:
    if not nodes:
        prefixes = {Status.OK: "", Status.NOT_CHECKED: "not checked: "}
        return "; ".join(
            prefixes[finding.status] + finding.message for finding in findings if finding.status in prefixes
        )
    counts = Counter(nodes.values())
    messages = {"" if finding.shown else finding.message for finding in findings}
    more = f": {messages.pop()}" if len(messages) == 1 and messages != {""} else ""
    if set(counts) == {Status.OK}:
        return f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}{more}"
    if set(counts) == {Status.NOT_CHECKED}:
        return f"{len(nodes)} {Status.NOT_CHECKED}{more}"
    return ", ".join(f"{counts[status]} {status}" for status in SEVERITY if counts[status])


def _details(findings: Sequence[Finding], nodes: Mapping[str, Status]) -> list[str]:
    found = []
    if nodes:
        # The first line counts nodes, and has no room for what holds for the lab.
        notes = [one.message for one in findings if one.node is None and one.status is Status.OK and one.message]
        found += [line for note in notes for line in _wrap(f"{_INDENT}{note}", _INDENT + "  ")]
    # Nodes with the same message share a line.
    groups: dict[tuple[str, str], list[str]] = {}
    for status in (Status.WRONG, Status.UNKNOWN, Status.OK):
        for finding in (one for one in findings if one.status is status and (one.shown or status is not Status.OK)):
            groups.setdefault((finding.message, finding.act), []).append(finding.node or "")
    for (message, act), names in groups.items():
        named = names == [""] or (len(names) == 1 and names[0] in message)
        found += _wrap(f"{_INDENT}{'' if named else _shared(names, nodes) + ': '}{message}", _INDENT + "  ")
        if act:
            found += _wrap(f"{_INDENT}  -> {act}", _INDENT + "     ")
    return found


def _not_checked(findings: Sequence[Finding]) -> list[str]:
    """Return one line for all findings that were not checked; none if the first line already says it."""
    left = [finding for finding in findings if finding.status is Status.NOT_CHECKED]
    if not left or (len(left) == len(findings) and len({finding.message for finding in left}) == 1):
        return []
    words = ", ".join(f"{finding.node} ({finding.message})" for finding in left)
    return _wrap(f"{_INDENT}{Status.NOT_CHECKED}: {words}", _INDENT + "  ")


def _shared(names: Sequence[str], nodes: Mapping[str, Status]) -> str:
    if len(names) > 1 and len(set(names)) == len(nodes):
        return f"all {len(nodes)}"
    return ", ".join(dict.fromkeys(names))


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
