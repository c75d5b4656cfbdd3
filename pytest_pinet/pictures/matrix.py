"""The matrix of a lab: what can be measured there, with what, and why the rest cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.limits import Limit
from pytest_pinet.pictures.columns import columns
from pytest_pinet.pictures.held import held, held_lines
from pytest_pinet.pictures.words import count
from pytest_pinet.report.fit import WIDTH, wrap

_ID_MOST = 30
POSSIBLE = {True: "ok", False: "-"}


@dataclass(frozen=True)
class Entry:
    """One cell of the matrix; ``combination`` is None where the lab cannot do it, and ``reason`` says why."""

    board: str
    nic: str
    topology: str
    combination: Combination | None
    reason: str | None = None
    tuning: str = ""

    @property
    def untuned(self) -> str:
        """The id without what is too long for a table."""
        return f"{self.board}:{self.nic}/{self.topology}"

    @property
    def id(self) -> str:
        return self.untuned + (f"/{self.tuning}" if self.tuning else "")


class LimitRecord(TypedDict):
    """A limit, and who set it."""

    min: str
    source: str


class EntryRecord(TypedDict):
    """One cell as JSON; ``interfaces`` stand in the order of the topology's ends, the one under test first."""

    id: str
    board: str
    nic: str
    topology: str
    tuning: str
    nodes: list[str]
    interfaces: list[str]
    uplinks: list[str]
    places: list[str]
    limits: dict[str, LimitRecord]
    possible: bool
    reason: str | None


def matrix_text(lab: Lab, entries: Sequence[Entry]) -> list[str]:
    """A grid where there are several topologies, then a line or more for each entry; at most 80 columns."""
    rows = [(POSSIBLE[entry.combination is not None], entry.untuned, _what(entry, lab.limits)) for entry in entries]
    lines = columns([("", "combination", "interfaces, the one under test first"), *rows], (2, _ID_MOST))
    possible = sum(entry.combination is not None for entry in entries)
    total = f"lab {lab.name}: {possible} of {count(len(entries), 'combination')} possible"
    grid = _grid(entries)
    return [*grid, *([""] if grid else []), *lines, "", *wrap(total, width=WIDTH)]


def _grid(entries: Sequence[Entry]) -> list[str]:
    """Boards with their NICs by topologies; nothing where that is one column or more than a terminal shows."""
    topologies = list(dict.fromkeys(entry.topology for entry in entries))
    cells = {(f"{entry.board}:{entry.nic}", entry.topology): entry for entry in entries}
    names = list(dict.fromkeys(name for name, _ in cells))
    widest = max(map(len, ("board:NIC", *names)))
    rows = [("board:NIC", topologies)]
    rows += [(name, [_tick(cells.get((name, topology))) for topology in topologies]) for name in names]
    lines = [
        "  ".join([name.ljust(widest), *(cell.ljust(len(top)) for cell, top in zip(row, topologies, strict=True))])
        for name, row in rows
    ]
    return [line.rstrip() for line in lines] if len(topologies) > 1 and len(lines[0]) <= WIDTH else []


def _tick(entry: Entry | None) -> str:
    return POSSIBLE[entry is not None and entry.combination is not None]


def _what(entry: Entry, limits: Sequence[Limit]) -> str:
    combination = entry.combination
    if combination is None:
        return entry.reason or "not possible"
    over = [uplink.name for segment in combination.uplinks for uplink in segment]
    ends = ", ".join(map(str, combination.ends)) + (f", over uplink {', '.join(over)}" if over else "")
    tuned = [f"tuned {entry.tuning}"] if entry.tuning else []
    return "\n".join([ends, *tuned, *(f"limit {line}" for line in held_lines(held(combination, limits)))])


def matrix_records(lab: Lab, entries: Sequence[Entry]) -> list[EntryRecord]:
    """The same for machines."""
    return [_record(entry, lab.limits) for entry in entries]


def _record(entry: Entry, limits: Sequence[Limit]) -> EntryRecord:
    combination = entry.combination
    found = held(combination, limits) if combination else {}
    return {
        "id": entry.id,
        "board": entry.board,
        "nic": entry.nic,
        "topology": entry.topology,
        "tuning": entry.tuning,
        "nodes": list(dict.fromkeys(end.node.name for end in combination.ends)) if combination else [],
        "interfaces": [str(end) for end in combination.ends] if combination else [],
        "uplinks": [cable.name for segment in combination.uplinks for cable in segment] if combination else [],
        "places": list(combination.places) if combination else [],
        "limits": {str(way): {"min": str(limit.minimum), "source": limit.source} for way, limit in found.items()},
        "possible": combination is not None,
        "reason": entry.reason,
    }
