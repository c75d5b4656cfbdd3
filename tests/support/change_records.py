"""Runs that compared two builds alternately, as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_pinet.model.record.change import BuildRecord, ChangedDirectionRecord, ChangeRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.report.change_head import change_head
from tests.support.report_records import direction, result, run_record

_VERDICTS = {"slower": "fail", "same": "pass", "faster": "improved", "inconclusive": "inconclusive"}


def build(name: str, key: str) -> BuildRecord:
    return BuildRecord(name=name, key=key, release=None, files=(), config=(), cmdline=(), options=(), sysctls=())


GOOD, NEW = build("good", "33d62a1a55dd"), build("new", "1f449c713387")


def compared(combination: str, way: str, change: float, relation: str, **of_direction: Any) -> ResultRecord:
    """Return one result: A has 941 Mbit/s, B differs by ``change`` (a fraction)."""
    a_bps = 941e6
    b_bps = a_bps * (1 + change)
    one = {
        "a_bps": a_bps,
        "b_bps": b_bps,
        "change": change,
        "interval": (change - 0.005, change + 0.005),
        "between_turns": 0.002,
        "verdict": _VERDICTS[relation],
        "why": f"{'not slower' if relation == 'same' else relation}, certain after 7 turns: B is {change * 100:+.2f} %",
    }
    values = direction(b_bps, a_bps * 0.99, _VERDICTS[relation], reason=str(one["why"]))
    return result(combination, {way: values}).replace(
        change=ChangeRecord(
            a=GOOD.name,
            b=NEW.name,
            tolerance=0.01,
            connections_per_turn=1,
            directions={way: ChangedDirectionRecord.model_validate(one | of_direction)},
            turns=(),
            connections=(),
            suspects=(),
        )
    )


def broken(combination: str, finding: str) -> ResultRecord:
    """Return a result of a build that broke."""
    return result(combination, {}, "fail", f"{finding} on pi4b-1 with new: Kernel panic").replace(finding=finding)


def change_run(results: Sequence[ResultRecord], **more: Any) -> RunRecord:
    """Return the whole run of a gate of ``new`` against ``good``."""
    head = change_head(GOOD, NEW, results, accepted=False, turns=7)
    return run_record(results, change=head, figures="measured", exitstatus=head.exit, **more)
