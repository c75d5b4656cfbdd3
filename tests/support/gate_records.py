"""The run of a gate with two metrics, one of them slower, as the history stores it."""

from __future__ import annotations

from dataclasses import replace

from pytest_pinet.model.record.change import (
    BuildFileRecord,
    BuildRecord,
    ChangedDirectionRecord,
    ChangeEntryRecord,
    ChangeHeadRecord,
    ChangeRecord,
    TurnRecord,
)
from pytest_pinet.model.record.measurement import ConnectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from tests.support.report_records import direction, result, run_record

RX, TX = "pi4b:onboard/pair/tcp-P1-rx", "pi4b:onboard/pair/tcp-P1-tx"
IMAGE = BuildFileRecord(role="kernel", name="kernel8.img", sha256="ab" * 32, size=9)


def build(name: str, key: str = "") -> BuildRecord:
    files = (IMAGE,) if key else ()
    settings = {"config": (), "cmdline": (), "options": (), "sysctls": ("net.ipv4.tcp_sack=0",) if key else ()}
    return BuildRecord(name=name, key=key, release="6.12.41-v8+" if key else None, files=files, **settings)


def gated_run(number: int = 1, verdict: str = "fail", lab: str = "virtual") -> RunRecord:
    """Return the run of a gate on the day ``number``: rx is 5 % slower with a regression, else unchanged."""
    rx = -0.05 if verdict == "fail" else 0.001
    entries = tuple(
        ChangeEntryRecord(
            id=figure,
            direction=way,
            verdict="fail" if change < -0.01 else "pass",
            text="certain after 4 turns",
            a_bps=941e6,
            b_bps=941e6 * (1 + change),
            change=change,
            suspect="tcp-segmentation-offload: on -> off" if change < -0.01 else "",
        )
        for figure, way, change in ((RX, "rx", rx), (TX, "tx", 0.0))
    )
    head = ChangeHeadRecord(
        a=build("running"),
        b=build("new", "1f449c713387"),
        baseline="interleaved",
        verdict=verdict,
        exit=int(verdict == "fail"),
        bisect_exit=int(verdict == "fail"),
        sentence="new must not be merged: 1 of 2 metrics slower." if rx < 0 else "new may be merged.",
        turns=4,
        entries=entries,
    )
    started = f"2026-11-{number:02}T08:00:00+00:00"
    results = [_result(one, started) for one in entries]
    return run_record(results, run=f"gate-{number}", lab=lab, started=started, session=f"{number:x}", change=head)


def _result(entry: ChangeEntryRecord, started: str) -> ResultRecord:
    way, b_bps, change = entry.direction, entry.b_bps or 0.0, entry.change or 0.0
    of_a, of_b = (ConnectionRecord("connection", bps, 1.0, level_bps=bps) for bps in (941e6, b_bps))
    connections = ((of_a,), (of_b, replace(of_b, excluded="the link dropped")), (of_a,), ())
    turns = tuple(
        TurnRecord(
            number=turn,
            side="AB"[turn % 2],
            started_s=0.0,
            seconds=1.0,
            running={},
            trouble="" if own else "no carrier",
            connections={way: own},
        )
        for turn, own in enumerate(connections)
    )
    one = ChangedDirectionRecord(
        a_bps=941e6,
        b_bps=b_bps,
        change=entry.change,
        interval=(round(change - 0.002, 6), round(change + 0.002, 6)),
        between_turns=0.001,
        verdict=entry.verdict,
        why="",
    )
    compared = ChangeRecord(
        a="running", b="new", tolerance=0.01, connections_per_turn=1, directions={way: one}, turns=turns,
        suspects=(),
    )  # fmt: skip
    own = result("pi4b:onboard/pair", {way: direction(b_bps)})
    return own.replace(change=compared, started=started)
