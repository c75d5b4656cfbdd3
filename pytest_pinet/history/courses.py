"""Keeps what the search for level changes found, so that a report searches only metrics with new runs.

Each course is stored under a digest of its values and of the program that searched. A new run or a change of the search
gives another digest, and the course is searched again. So a stored course is never
wrong, only unused, and writers need not wait for each other. A reader without the right to write stores nothing.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from pytest_pinet.history.drift import Drift, SeriesCourse, course_of
from pytest_pinet.history.levels import LevelShift
from pytest_pinet.history.tables import COURSES, ENCODER, SERIES, insert_into

# What the result of a search depends on.
_PACKAGE = Path(__file__).parents[1]
SOURCES = tuple(
    _PACKAGE / name for name in ("history/courses.py", "history/drift.py", "history/levels.py", "judge/statistics.py")
)


class MetricCourses:
    """The courses of one metric. ``content`` is what is stored of them (empty: nothing)."""

    def __init__(self, content: str = "") -> None:
        self._stored: Mapping[str, Any] = json.loads(content) if content else {}
        self._used: dict[str, Any] = {}

    def find(self, rates: Sequence[float], matters: float) -> SeriesCourse:
        """See `course_of`."""
        digest = blake2b(array("d", [matters, *rates]).tobytes(), digest_size=16, key=_program()).hexdigest()
        if digest in self._stored:
            self._used[digest] = self._stored[digest]
            return _unpacked(*self._stored[digest])
        found = course_of(rates, matters)
        self._used[digest] = _packed(found)
        return found

    @property
    def changed(self) -> bool:
        """Whether a search found a course that is not stored."""
        return not self._used.keys() <= self._stored.keys()

    @property
    def content(self) -> str:
        """The courses that were needed, to be stored."""
        return ENCODER.encode(self._used)


@cache
def _program() -> bytes:
    """Return a digest of the program that searches. A number of its version would be forgotten one day."""
    return blake2b(b"".join(path.read_bytes() for path in SOURCES), digest_size=16).digest()


def _packed(found: SeriesCourse) -> list[Any]:
    drift = found.drift
    return [
        [[one.at, one.first, one.last, one.size] for one in found.shifts],
        None if drift is None else [drift.begin, drift.end, drift.size],
        # A level is the same for many runs.
        [[len(list(equal)), level] for level, equal in groupby(found.levels)],
    ]


def _unpacked(
    shifts: Sequence[tuple[int, int, int, float]],
    drift: tuple[int, int, float] | None,
    levels: Sequence[tuple[int, float]],
) -> SeriesCourse:
    whole = chain.from_iterable(repeat(level, times) for times, level in levels)
    return SeriesCourse(
        tuple(LevelShift(*one) for one in shifts), None if drift is None else Drift(*drift), tuple(whole)
    )


def stored_courses(connection: Connection, last: int) -> dict[tuple[str, str], str]:
    """Return the stored courses among the newest ``last`` points, by metric and lab."""
    query = select(SERIES.c.figure, SERIES.c.lab, COURSES.c.content).join(COURSES, COURSES.c.series == SERIES.c.key)
    return {(figure, lab): content for figure, lab, content in connection.execute(query.where(COURSES.c.last == last))}


def store_courses(connection: Connection, last: int, found: Mapping[tuple[str, str], str]) -> None:
    """Store courses by metric and lab, in place of what was stored of these metrics."""
    series = connection.execute(select(SERIES.c.key, SERIES.c.figure, SERIES.c.lab).order_by(SERIES.c.key))
    # Sorted, so that two writers never deadlock.
    rows = [
        {"series": key, "last": last, "content": found[figure, lab]}
        for key, figure, lab in series
        if (figure, lab) in found
    ]
    statement = insert_into(connection, COURSES)
    updated = statement.on_conflict_do_update(
        index_elements=[*COURSES.primary_key], set_={"content": statement.excluded.content}
    )
    connection.execute(updated, rows)
