"""Results travel on pytest's reports as plain data, because pytest-xdist sends reports between processes."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_pinet.model.record.result import ResultRecord

_ATTRIBUTE = "pinet_results"


def attach_results(report: object, results: Iterable[ResultRecord]) -> None:
    """Put results on a report. They replace the results that the report already has."""
    setattr(report, _ATTRIBUTE, [result.dump() for result in results])


def attached_results(report: object) -> list[ResultRecord]:
    """Return the results of a report; none for a report of another test."""
    return [ResultRecord.model_validate(one) for one in getattr(report, _ATTRIBUTE, ())]
