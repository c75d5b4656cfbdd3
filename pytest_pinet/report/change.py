"""The record types of an A/B change in ``results.json``: plain dicts, lists and numbers, as in ``record``.

A is the known-good build, B the build under test. Rates are bit/s, durations seconds, changes are fractions (-0.05: 5 %
slower).
"""

from __future__ import annotations

from typing import TypedDict


class BuildFileRecord(TypedDict):
    """One file of a build, as it is called on the board; ``sha256`` is of its content."""

    role: str
    name: str
    sha256: str
    size: int


class BuildRecord(TypedDict):
    """What was asked to run. ``key`` is a hash of all of it, empty for what the boards were found with."""

    name: str
    key: str
    release: str | None
    files: list[BuildFileRecord]
    config: list[str]
    cmdline: list[str]
    options: list[str]
    sysctls: list[str]


class TurnRecord(TypedDict):
    """One turn, numbered from 1: a boot of its build (``A``, ``B``), or for a build that takes none, its load.

    It began ``started_s`` after the first one, and took ``seconds`` before anything could be measured.
    ``running`` is what the board said of itself; ``trouble`` why nothing was measured in it (empty: it was).
    """

    number: int
    side: str
    started_s: float
    seconds: float
    running: dict[str, str | None]
    trouble: str


class ChangedConnectionRecord(TypedDict):
    """One connection of one turn; ``excluded`` says why it stands in no figure (empty: it does).

    ``level_bps`` is what is judged: without the weight of odd moments (None: it gave no figure).
    """

    turn: int
    side: str
    goodput_bps: dict[str, float]
    level_bps: dict[str, float | None]
    counted_s: float
    excluded: str
    events: list[str]


class ChangedDirectionRecord(TypedDict):
    """One direction in both builds. ``change`` is B over A minus one, drift taken out, within ``interval``.

    ``result`` is ``slower``, ``same``, ``faster``, ``inconclusive`` or, while it was measured, ``go on``;
    ``between_turns`` the relative standard deviation from turn to turn.
    """

    a_bps: float
    b_bps: float
    change: float | None
    interval: list[float] | None
    between_turns: float | None
    result: str
    why: str


class SuspectRecord(TypedDict):
    """What differs between the builds beside the figure; ``text`` is a line for a reader."""

    name: str
    a: str
    b: str
    text: str


class ChangeRecord(TypedDict):
    """Both sides of one combination and traffic; ``suspects`` are most telling first."""

    a: str
    b: str
    tolerance: float
    connections_per_turn: int
    directions: dict[str, ChangedDirectionRecord]
    turns: list[TurnRecord]
    connections: list[ChangedConnectionRecord]
    suspects: list[SuspectRecord]


class ChangeEntryRecord(TypedDict):
    """What came of one figure: ``outcome`` in a word, ``text`` in a line.

    ``finding`` is the kind of a finding of the build (``panic``, ``no driver`` and so on; empty: there is none).
    """

    id: str
    direction: str
    outcome: str
    text: str
    a_bps: float | None
    b_bps: float | None
    change: float | None
    suspect: str
    finding: str


class ChangeHeadRecord(TypedDict):
    """The answer on the whole change, and the exit codes of ``pinet gate`` without and with ``--bisect``.

    ``baseline`` is ``interleaved`` (A was measured in the same run) or ``accepted``. ``turns`` are all that there were.
    """

    a: BuildRecord
    b: BuildRecord
    baseline: str
    answer: str
    exit: int
    bisect_exit: int
    sentence: str
    turns: int
    entries: list[ChangeEntryRecord]
