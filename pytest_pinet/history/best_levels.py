"""The best level that each metric ever had. Stored because a search of all points takes a second.

A runner of an earlier release that writes to the same history does not update the table: the levels of its runs are
missing here.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, Connection, Float, ForeignKey, Integer, Table, delete, func, insert, inspect, select

from pytest_pinet.history.levels import LEAST_RUNS
from pytest_pinet.history.tables import METADATA, POINTS, SERIES, in_pieces
from pytest_pinet.history.trends import COUNTED

# Runs whose mean is a level: it varies by 0.35 % on a link whose runs vary by 1 %.
_IN_A_ROW = 8
_COUNTED = frozenset(map(str, COUNTED))

# ``best`` is the best mean so far; ``runs`` and ``total`` are the number and the sum of the values since the last mean.
# A history of an earlier release lacks the table; the next run makes it.
BEST = Table(
    "pinet_best",
    METADATA,
    Column("series", ForeignKey("pinet_series.key"), primary_key=True, autoincrement=False),
    Column("runs", Integer, nullable=False),
    Column("total", Float, nullable=False),
    Column("best", Float, nullable=False),
)


def best_levels(connection: Connection) -> dict[tuple[str, str], float]:
    """Return the best mean goodput (bit/s) of a few runs in a row, by metric and lab."""
    if inspect(connection).has_table(BEST.name):
        known = connection.execute(select(BEST.c.series, BEST.c.runs, BEST.c.total, BEST.c.best))
        best = {key: max(level, total / runs if runs >= LEAST_RUNS else 0.0) for key, runs, total, level in known}
    else:
        best = _of_points(connection)
    series = connection.execute(select(SERIES.c.key, SERIES.c.figure, SERIES.c.lab))
    return {(figure, lab): best[key] for key, figure, lab in series if best.get(key)}


def fill(connection: Connection) -> None:
    """Fill the new table of a history that has points already."""
    if rows := [_row(key, 0, 0.0, level) for key, level in _of_points(connection).items()]:
        connection.execute(insert(BEST), rows)


def keep_best(connection: Connection, points: Sequence[tuple[int, float | None, str]]) -> None:
    """Add points (series, goodput, verdict), sorted by series and time. The caller has locked their series."""
    kept: dict[int, tuple[int, float, float]] = {series: (0, 0.0, 0.0) for series, _, _ in points}
    for some in in_pieces(sorted(kept)):
        here = BEST.c.series.in_(some)
        for key, *own in connection.execute(select(BEST.c.series, BEST.c.runs, BEST.c.total, BEST.c.best).where(here)):
            kept[key] = (own[0], own[1], own[2])
        connection.execute(delete(BEST).where(here))
    for series, goodput, verdict in points:
        if goodput is not None and verdict in _COUNTED:
            runs, total, best = kept[series]
            runs, total = runs + 1, total + goodput
            kept[series] = (0, 0.0, max(best, total / runs)) if runs == _IN_A_ROW else (runs, total, best)
    connection.execute(insert(BEST), [_row(series, *own) for series, own in kept.items()])


def _row(series: int, runs: int, total: float, best: float) -> dict[str, float]:
    return {"series": series, "runs": runs, "total": total, "best": best}


def _of_points(connection: Connection) -> dict[int, float]:
    """Return the best level of each series, from all points."""
    of = POINTS.c
    place = func.row_number().over(partition_by=of.series, order_by=(of.time, of.run, of.number))
    judged = of.goodput.is_not(None) & of.verdict.in_(_COUNTED)
    runs = select(of.series, of.goodput, (place // _IN_A_ROW).label("part")).where(judged).subquery()
    means = select(runs.c.series, func.avg(runs.c.goodput).label("mean")).group_by(runs.c.series, runs.c.part)
    enough = means.having(func.count() >= LEAST_RUNS).subquery()
    best = select(enough.c.series, func.max(enough.c.mean)).group_by(enough.c.series)
    return {row[0]: row[1] for row in connection.execute(best)}
