"""The tables of gates, and the conversion of rows to values and back.

A history of an earlier release lacks these tables; the next writer makes them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Column, Connection, Float, ForeignKey, Integer, Row, String, Table, Text, insert, select

from pytest_pinet.history.gates import GateBuild, GatedMetric, GateTurn, StoredGate
from pytest_pinet.history.tables import ENCODER, METADATA, clean, has_table, in_pieces
from pytest_pinet.model.verdict import ChangeVerdict, MetricOutcome

# One row for each run that gated a change. ``more`` has the parts of both builds.
GATES = Table(
    "pinet_gates",
    METADATA,
    Column("run", ForeignKey("pinet_runs.key"), primary_key=True, autoincrement=False),
    Column("a", Text, nullable=False),
    Column("b", Text, nullable=False),
    Column("baseline", String(16), nullable=False),
    Column("answer", String(16), nullable=False),
    Column("exit", Integer, nullable=False),
    Column("turns", Integer, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("more", Text, nullable=False),
)

# One row for each metric of a gate, the worst outcome first. Changes are fractions. ``more`` has texts and turns.
GATED = Table(
    "pinet_gated",
    METADATA,
    Column("run", ForeignKey("pinet_runs.key"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("figure", Text, nullable=False, index=True),
    Column("outcome", String(16), nullable=False),
    Column("a_bps", Float),
    Column("b_bps", Float),
    Column("change", Float),
    Column("low", Float),
    Column("high", Float),
    Column("tolerance", Float),
    Column("finding", Text, nullable=False),
    Column("more", Text, nullable=False),
)


def add_gates(connection: Connection, gates: Mapping[int, StoredGate]) -> None:
    """Store gates by the key of their run. A gate that is stored already does not change."""
    stored = {row.run for row in connection.execute(select(GATES.c.run).where(GATES.c.run.in_(list(gates))))}
    new = {run: gate for run, gate in gates.items() if run not in stored}
    if new:
        connection.execute(insert(GATES), [_gate_row(gate, run) for run, gate in new.items()])
    if rows := [row for run, gate in new.items() for row in _metric_rows(gate, run)]:
        connection.execute(insert(GATED), rows)


def gates_of(connection: Connection, runs: Sequence[int]) -> dict[int, StoredGate]:
    """Return the gates of these runs by the key of their run."""
    if not has_table(connection, GATES):
        return {}
    found: dict[int, StoredGate] = {}
    for some in in_pieces(runs):
        rows = connection.execute(select(GATES).where(GATES.c.run.in_(some))).all()
        metrics: dict[int, list[Row[Any]]] = defaultdict(list)
        for row in connection.execute(select(GATED).where(GATED.c.run.in_([one.run for one in rows]))):
            metrics[row.run].append(row)
        for one in rows:
            found[one.run] = _gate(one, sorted(metrics[one.run], key=lambda row: row.position))
    return found


def _gate_row(gate: StoredGate, run: int) -> dict[str, Any]:
    """Return a gate as a row of GATES. ``run`` is the key of its run."""
    own = {name: getattr(gate, name) for name in ("baseline", "answer", "exit", "turns")}
    builds = {"a": asdict(gate.a), "b": asdict(gate.b)}
    names = {"a": clean(gate.a.name), "b": clean(gate.b.name), "sentence": clean(gate.sentence)}
    return own | names | {"run": run, "more": ENCODER.encode(builds)}


def _metric_rows(gate: StoredGate, run: int) -> list[dict[str, Any]]:
    """Return the metrics of a gate as rows of GATED."""
    rows = []
    for position, one in enumerate(gate.metrics):
        own = {name: getattr(one, name) for name in ("outcome", "a_bps", "b_bps", "change", "tolerance")}
        low, high = one.interval or (None, None)
        turns = [(turn.number, turn.side, turn.levels_bps, turn.trouble) for turn in one.turns]
        texts = {"suspect": one.suspect, "text": one.text}
        more = ENCODER.encode({**texts, "turns": turns, "instructions": one.instructions})
        names = {"figure": clean(one.figure), "finding": clean(one.finding)}
        rows.append(own | names | {"run": run, "position": position, "low": low, "high": high, "more": more})
    return rows


def _gate(row: Row[Any], metrics: Iterable[Row[Any]]) -> StoredGate:
    """Return the gate of a row of GATES and its rows of GATED, in their order.

    Words that only a newer pytest-pinet knows count as undecided.
    """
    a, b = (_build(json.loads(row.more)[side]) for side in "ab")
    answer = ChangeVerdict(row.answer) if row.answer in list(ChangeVerdict) else ChangeVerdict.UNDECIDED
    own = (row.baseline, answer, row.exit, row.sentence, row.turns)
    return StoredGate(a, b, *own, tuple(map(_metric, metrics)))


def _build(own: dict[str, Any]) -> GateBuild:
    return GateBuild(**own | {"settings": tuple(own["settings"])})


def _metric(row: Row[Any]) -> GatedMetric:
    more = json.loads(row.more)
    turns = (GateTurn(number, side, tuple(levels), trouble) for number, side, levels, trouble in more["turns"])
    interval = None if row.low is None else (row.low, row.high)
    outcome = MetricOutcome(row.outcome) if row.outcome in list(MetricOutcome) else MetricOutcome.UNDECIDED
    values = (row.figure, outcome, row.a_bps, row.b_bps, row.change, interval, row.tolerance, row.finding)
    counted = more.get("instructions")
    return GatedMetric(*values, more["suspect"], more["text"], tuple(turns), tuple(counted) if counted else None)
