"""The record of a whole run: the content of ``results.json``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pytest_pinet.model.record.base import Beside, Rare, Record, SparseRecord
from pytest_pinet.model.record.change import ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord

SCHEMA_VERSION = 1


class SkippedRecord(Record):
    """A combination that was requested but not measured, and the reason."""

    id: str
    reason: str


class MergedRunRecord(Record):
    """One of several runs that were joined: its run and session, and its lab."""

    run: str
    lab: str
    session: str


class RunRecord(SparseRecord):
    """The whole of ``results.json``.

    ``figures`` says what the values are: ``measured`` on hardware, or ``emulated`` (the lab sets the rates of its
    links). ``complete`` is false if the run was interrupted. ``session`` is unique for each run. Only some runs have
    the following keys. ``meaning`` says what emulated values mean: the lab and how it works. ``change`` is the answer
    on a build under test. ``scale`` is the share of their rate at which the lab's links ran, if less than 1.
    ``shards`` is the number of runs of which this run is one, and ``error_rate`` the rate for all of them together
    (``--pinet-shards``). ``merged`` has the runs that ``pinet merge`` joined to this one.
    """

    schema_version: int = Field(alias="schema")
    run: str
    lab: str = ""
    lab_file: str = ""
    figures: str = "measured"
    pinet: str = ""
    started: str
    finished: str = ""
    complete: bool = True
    exitstatus: int = 0
    results: tuple[ResultRecord, ...]
    skipped: tuple[SkippedRecord, ...] = ()
    session: Rare[str] = None
    meaning: Rare[str] = None
    change: Rare[ChangeHeadRecord] = None
    scale: Rare[float] = None
    shards: Rare[int] = None
    error_rate: Annotated[float | None, Beside("shards")] = None
    merged: Rare[tuple[MergedRunRecord, ...]] = None
