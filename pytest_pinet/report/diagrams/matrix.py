"""The matrix of a lab: which combinations it can measure, with which interfaces, and why not the others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.diagrams.text import held, held_lines, management_lines
from pytest_pinet.report.table import columns, text_table
from pytest_pinet.report.text_wrap import WIDTH, count, wrap

_ID_MOST = 30
POSSIBLE = {True: "ok", False: "-"}


@dataclass(frozen=True)
class MatrixEntry:
    """One cell of the matrix. If the lab cannot measure it, ``combination`` is None and ``reason`` says why."""

    identity: CombinationId
    combination: Combination | None
    reason: str | None = None

    @property
    def untuned(self) -> str:
        """Return the id without the tuning, which is too long for a table."""
        return str(replace(self.identity, tuning=""))

    @property
    def id(self) -> str:
        return str(self.identity)


def matrix_text(lab: Lab, entries: Sequence[MatrixEntry]) -> list[str]:
    """Return a grid if there are several topologies, then the lines of each entry; at most 80 columns."""
    rows = [(POSSIBLE[entry.combination is not None], entry.untuned, _what(entry, lab.limits)) for entry in entries]
    lines = columns([("", "combination", "interfaces, the one under test first"), *rows], (2, _ID_MOST))
    possible = sum(entry.combination is not None for entry in entries)
    total = f"lab {lab.name}: {possible} of {count(len(entries), 'combination')} possible"
    grid = _grid(entries)
    ways = [part for line in management_lines(lab.nodes.values()) for part in wrap(line, width=WIDTH)]
    return [*grid, *([""] if grid else []), *lines, "", *wrap(total, width=WIDTH), *ways]


def _grid(entries: Sequence[MatrixEntry]) -> list[str]:
    """Return a grid of board:NIC by topology; empty for a single topology or if wider than a terminal."""
    ids = {entry.identity: entry for entry in entries}
    topologies = list(dict.fromkeys(of.topology for of in ids))
    cells = {(f"{of.board}:{of.nic}", of.topology): entry.combination for of, entry in ids.items()}
    names = list(dict.fromkeys(name for name, _ in cells))
    rows = [["board:NIC", *topologies]]
    rows += [[name, *(POSSIBLE[cells.get((name, topology)) is not None] for topology in topologies)] for name in names]
    lines = text_table(rows, "<  " * len(rows[0]))
    return lines if len(topologies) > 1 and len(lines[0]) <= WIDTH else []


def _what(entry: MatrixEntry, limits: Sequence[Limit]) -> str:
    combination = entry.combination
    if combination is None:
        return entry.reason or "not possible"
    over = [uplink.name for segment in combination.uplinks for uplink in segment]
    ends = ", ".join(map(str, combination.ends)) + (f", over uplink {', '.join(over)}" if over else "")
    tuned = [f"tuned {entry.identity.tuning}"] if entry.identity.tuning else []
    return "\n".join([ends, *tuned, *(f"limit {line}" for line in held_lines(held(combination, limits)))])


def matrix_records(lab: Lab, entries: Sequence[MatrixEntry]) -> list[dict[str, object]]:
    """Return the matrix as plain data.

    ``interfaces`` are in the order of the topology's ends; the first one is under test. ``management`` has the ways of
    management in the lab file, by node.
    """
    return [_record(entry, lab.limits) for entry in entries]


def _record(entry: MatrixEntry, limits: Sequence[Limit]) -> dict[str, object]:
    of, combination = entry.identity, entry.combination
    found = held(combination, limits) if combination else {}
    return {
        "id": entry.id,
        "board": of.board,
        "nic": of.nic,
        "topology": of.topology,
        "tuning": of.tuning,
        "nodes": list(dict.fromkeys(end.node.name for end in combination.ends)) if combination else [],
        "interfaces": [str(end) for end in combination.ends] if combination else [],
        "uplinks": [cable.name for segment in combination.uplinks for cable in segment] if combination else [],
        "places": list(combination.places) if combination else [],
        "management": {n.name: str(n.management) for n in combination.nodes if n.management} if combination else {},
        "limits": {str(way): {"min": str(limit.minimum), "source": limit.source} for way, limit in found.items()},
        "possible": combination is not None,
        "reason": entry.reason,
    }


RUNNERS = {"github": ("self-hosted", "network-lab"), "gitlab": ("network-lab",)}
# GitHub refuses larger matrices.
MOST_JOBS = 256


def job_matrix(form: str, entries: Sequence[MatrixEntry], runners: Sequence[str]) -> str:
    """Return one line of JSON, which is also YAML. Raises ConfigError if there is nothing to measure.

    For GitHub it is the value of ``strategy: matrix`` with the keys ``board`` and ``runner``, for GitLab the value of
    ``parallel: matrix`` with the variables BOARD and RUNNER.
    """
    labels = list(runners or RUNNERS[form])
    boards = list(dict.fromkeys(entry.identity.board for entry in entries if entry.combination is not None))
    if not boards:
        raise ConfigError("the lab can measure none of these combinations; 'pinet matrix' without --format says why")
    if len(boards) > MOST_JOBS:
        raise ConfigError(f"{len(boards)} boards are more than {MOST_JOBS} jobs; choose some with --board")
    if form == "github":
        return json.dumps({"include": [{"board": board, "runner": labels} for board in boards]}, separators=(",", ":"))
    if len(labels) > 1:
        raise ConfigError(f"--runner: {', '.join(labels)}: a variable of GitLab holds one tag; expected one --runner")
    return json.dumps([{"BOARD": boards, "RUNNER": labels}], separators=(",", ":"))
