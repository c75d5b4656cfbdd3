"""Builds the records of an exact comparison: one result for each window of traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from pytest_pinet.judge.difference import VERDICTS, limit_below
from pytest_pinet.judge.exact import ExactChange, WindowChange
from pytest_pinet.model.exact import USUAL_PAGES_KIB, ExactIdentity, Function
from pytest_pinet.model.judgement import DirectionJudgement, MeasurementJudgement
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.change import (
    EXACT,
    ChangedDirectionRecord,
    ChangeRecord,
    ExactChangeRecord,
    ExactSideRecord,
    TurnRecord,
)
from pytest_pinet.model.record.result import CombinationRecord, EndRecord, ResultRecord
from pytest_pinet.report.result_record import result_record

EXACT_MEANING = (
    "instructions of a virtual machine, whose clock counts them; they say nothing about caches, buses, DMA, PHY and "
    "interrupt latency"
)
# At most this many functions of a window are recorded one by one.
_RECORDED = 50
# An exact board has no wire and no bus: nothing limits its goodput but its instructions.
_NO_LIMIT = "an exact board has no physical limit: its time is a count of instructions"


def exact_combination(nic: str, ran: ExactIdentity | None = None, traffic: str = "") -> CombinationRecord:
    """Return the combination of an exact board. Values of another QEMU, or of other pages, are another metric.

    ``ran`` is what ran on the board, None before the first boot.
    """
    pages = f"+pages={ran.pages_kib}k" if ran is not None and ran.pages_kib != USUAL_PAGES_KIB else ""
    identity = CombinationId(EXACT, nic, "pair", f"qemu={ran.qemu}{pages}" if ran is not None else "")
    ends = f"{EXACT}:eth0", f"{EXACT}:eth1"
    both = tuple(EndRecord(end=end, port="") for end in ends)
    return CombinationRecord.of(identity, id=str(identity), traffic=traffic, dut=ends[0], peer=ends[1], ends=both)


def exact_records(
    names: tuple[str, str],
    identities: tuple[ExactIdentity, ExactIdentity],
    found: ExactChange,
    turns: Sequence[TurnRecord],
    started: datetime,
    source_of: Callable[[Function], str] = lambda _: "",
) -> list[ResultRecord]:
    """Return a result for each window. ``names`` are the names of the builds.

    ``source_of`` returns file and line of a function in the tree of build B; empty if this is not known.
    """
    return [
        _record(names, identities[1], one, turns, started, _exact(identities, found, one, source_of))
        for one in found.windows
    ]


def _record(
    names: tuple[str, str],
    b: ExactIdentity,
    one: WindowChange,
    turns: Sequence[TurnRecord],
    started: datetime,
    exact: ExactChangeRecord,
) -> ResultRecord:
    way = one.b.direction
    traffic = one.b.name.removesuffix(f"-{way}")
    combination = exact_combination(b.board, b, traffic)
    a_bps, b_bps = one.a.goodput_bps, one.b.goodput_bps
    direction = DirectionJudgement(
        VERDICTS[one.result],
        one.why,
        Bitrate(b_bps),
        Bitrate(0.0),
        _NO_LIMIT,
        error_rate=0.0,
        limit=limit_below(Bitrate(a_bps), one.tolerance, f"{names[0]}, in virtual time"),
        interval=(b_bps, b_bps),
    )
    interval = one.change, one.change
    changed = ChangedDirectionRecord.of(
        one, verdict=direction.verdict, a_bps=a_bps, b_bps=b_bps, interval=interval, between_turns=0.0
    )
    return result_record(
        combination,
        traffic,
        MeasurementJudgement(direction.verdict, f"{one.b.name}: {one.why}", {way: direction}),
        id=f"{combination.id}/{one.b.name}",
        build={"uname": b.kernel, "version": b.banner, "driver": b.driver, "qemu": b.qemu, "cmdline": b.cmdline},
        started=started.isoformat(),
        seconds=sum(turn.seconds for turn in turns),
        traffic_seconds=(one.a.virtual_ns + one.b.virtual_ns) / 1e9,
        change=ChangeRecord(
            a=names[0],
            b=names[1],
            tolerance=one.tolerance,
            connections_per_turn=1,
            directions={str(way): changed},
            turns=tuple(turns),
            connections=(),
            suspects=(),
        ),
        exact=exact,
    )


def _exact(
    identities: tuple[ExactIdentity, ExactIdentity],
    found: ExactChange,
    one: WindowChange,
    source_of: Callable[[Function], str],
) -> ExactChangeRecord:
    b, rest = identities[1], one.functions[_RECORDED:]
    return ExactChangeRecord.of(
        one,
        nic=b.board,
        device=b.nic,
        machine=b.machine,
        qemu=b.qemu,
        processors=b.processors,
        octets=one.b.octets,
        a=ExactSideRecord.of(one.a, variation=one.variations[0], instructions=one.sum_a),
        b=ExactSideRecord.of(one.b, variation=one.variations[1], instructions=one.sum_b),
        modules=found.modules,
        limit=str(one.limit),
        functions=[replace(each, source=source_of(each.function)) for each in one.functions[:_RECORDED]],
        more=len(rest),
        more_change=sum(each.change for each in rest),
        no_functions=next(filter(None, (identity.no_functions for identity in identities)), ""),
    )
