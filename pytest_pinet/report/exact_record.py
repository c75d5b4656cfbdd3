"""Builds the records of an exact comparison: one result for each window of traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from pytest_pinet.judge.difference import VERDICTS
from pytest_pinet.judge.exact import ExactChange, FunctionChange, WindowChange
from pytest_pinet.model.exact import ExactBoot, ExactIdentity, Function
from pytest_pinet.model.judgement import DirectionJudgement
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.change import ChangedDirectionRecord, ChangeRecord, TurnRecord
from pytest_pinet.model.record.exact_change import ExactChangeRecord, ExactSideRecord, FunctionRecord
from pytest_pinet.model.record.result import CombinationRecord, EndRecord, ResultRecord
from pytest_pinet.report.result_record import ResultParts, result_record

# The name of exact boards in ids.
EXACT = "exact"
EXACT_MEANING = (
    "instructions of a virtual machine, whose clock counts them; they say nothing about caches, buses, DMA, PHY and "
    "interrupt latency"
)
# At most this many functions of a window are recorded one by one.
_RECORDED = 50
# An exact board has no wire and no bus: nothing limits its goodput but its instructions.
_NO_LIMIT = "an exact board has no physical limit: its time is a count of instructions"


def exact_combination(nic: str, qemu: str = "", traffic: str = "") -> CombinationRecord:
    """Return the combination of an exact board. Values of another QEMU are another metric.

    ``qemu`` is empty before the first boot.
    """
    identity = CombinationId(EXACT, nic, "pair", f"qemu={qemu}" if qemu else "")
    ends = f"{EXACT}:eth0", f"{EXACT}:eth1"
    return CombinationRecord(
        id=str(identity),
        board=EXACT,
        nic=nic,
        topology="pair",
        tuning=identity.tuning,
        traffic=traffic,
        dut=ends[0],
        peer=ends[1],
        ends=tuple(EndRecord(end=end, port="") for end in ends),
    )


def exact_records(
    names: tuple[str, str],
    boots: tuple[ExactBoot, ExactBoot],
    found: ExactChange,
    turns: Sequence[TurnRecord],
    started: datetime,
    source_of: Callable[[Function], str] = lambda _: "",
) -> list[ResultRecord]:
    """Return a result for each window. ``names`` are the names of the builds.

    ``source_of`` returns file and line of a function in the tree of build B; empty if this is not known.
    """
    a, b = boots[0].identity, boots[1].identity
    return [_record(names, (a, b), found, one, turns, started, source_of) for one in found.windows]


def _record(
    names: tuple[str, str],
    identities: tuple[ExactIdentity, ExactIdentity],
    found: ExactChange,
    one: WindowChange,
    turns: Sequence[TurnRecord],
    started: datetime,
    source_of: Callable[[Function], str],
) -> ResultRecord:
    b = identities[1]
    way = one.b.direction
    traffic = one.b.name.removesuffix(f"-{way}")
    combination = exact_combination(b.board, b.qemu, traffic)
    verdict = VERDICTS[one.result]
    rule = f"{one.tolerance * 100:.3g}% below {names[0]}, in virtual time"
    direction = DirectionJudgement(
        verdict,
        one.why,
        Bitrate(one.b.goodput_bps),
        Bitrate(0.0),
        _NO_LIMIT,
        error_rate=0.0,
        limit=Bitrate(one.a.goodput_bps * (1 - one.tolerance)),
        rule=rule,
        interval=(one.b.goodput_bps, one.b.goodput_bps),
    )
    changed = ChangedDirectionRecord(
        a_bps=one.a.goodput_bps,
        b_bps=one.b.goodput_bps,
        change=one.change,
        interval=(one.change, one.change),
        between_turns=0.0,
        result=str(one.result),
        why=one.why,
    )
    return result_record(
        ResultParts(
            id=f"{combination.id}/{one.b.name}",
            verdict=verdict,
            message=f"{combination.id} {one.b.name}: {one.why}",
            combination=combination,
            traffic=traffic,
            build={"uname": b.kernel, "version": b.banner, "driver": b.driver, "qemu": b.qemu, "cmdline": b.cmdline},
            notes=found.missing,
            started=started,
            seconds=sum(turn.seconds for turn in turns),
            traffic_seconds=(one.a.virtual_ns + one.b.virtual_ns) / 1e9,
            directions={way: direction},
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
            exact=_exact(identities, found, one, source_of),
        )
    )


def _exact(
    identities: tuple[ExactIdentity, ExactIdentity],
    found: ExactChange,
    one: WindowChange,
    source_of: Callable[[Function], str],
) -> ExactChangeRecord:
    b = identities[1]
    first, rest = one.functions[:_RECORDED], one.functions[_RECORDED:]
    sides = [
        ExactSideRecord(
            packets=window.packets,
            virtual_ns=window.virtual_ns,
            packets_per_second=window.packets_per_second,
            instructions=instructions,
        )
        for window, instructions in ((one.a, one.sum_a), (one.b, one.sum_b))
    ]
    return ExactChangeRecord(
        nic=b.board,
        device=b.nic,
        machine=b.machine,
        qemu=b.qemu,
        processors=b.processors,
        unit=one.unit,
        octets=one.b.octets,
        a=sides[0],
        b=sides[1],
        modules=found.modules,
        limit=str(one.limit),
        shift=one.shift,
        functions=tuple(_function(function, source_of) for function in first),
        more=len(rest),
        more_change=sum(function.change for function in rest),
        no_functions=next(filter(None, (identity.no_functions for identity in identities)), ""),
    )


def _function(one: FunctionChange, source_of: Callable[[Function], str]) -> FunctionRecord:
    return FunctionRecord(
        name=one.function.name,
        module=one.function.module,
        a=one.a,
        b=one.b,
        comparison=str(one.comparison),
        was="" if one.was is None else str(one.was),
        missed=one.missed,
        source=source_of(one.function),
    )
