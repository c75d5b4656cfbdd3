"""The record of a change on exact boards, and its texts for reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple, TypeVar

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.history.points import instructions_of
from pytest_pinet.judge.difference import VERDICTS, limit_below
from pytest_pinet.judge.exact import TCP, ExactChange, WindowChange
from pytest_pinet.judge.exact_functions import OF_CHANGE, ROUNDING, SHIFT, importance
from pytest_pinet.model.exact import (
    USUAL_PAGES_KIB,
    Comparison,
    ExactIdentity,
    Function,
    FunctionChange,
    is_event,
    is_one_by_one,
)
from pytest_pinet.model.judgement import DirectionJudgement, MeasurementJudgement
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.change import (
    EXACT,
    ChangedDirectionRecord,
    ChangeEntryRecord,
    ChangeRecord,
    ExactChangeRecord,
    ExactSideRecord,
    TurnRecord,
)
from pytest_pinet.model.record.result import CombinationRecord, EndRecord, ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import result_record
from pytest_pinet.report.text_wrap import WIDTH, rate, signed_percent, text_table, wrap

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


T = TypeVar("T")
# Reports name at most this many functions. results.json has more.
MOST_FUNCTIONS = 10
MARK = "emulated, exact"
METRIC_HEADS = ("metric", "A instr.", "B instr.", "change", "B rate", "change", "outcome")
METRIC_COLUMNS = "<  >  >  >  >  >  <"
# What the columns of metrics are.
METRIC_MEANING = "instructions per packet or answer; rates in virtual time (/s: answers)"
METRIC_SENTENCE = f"{METRIC_MEANING[0].upper()}{METRIC_MEANING[1:]}."
FUNCTION_HEADS = ("function", "in", "A", "B", "change")
_FUNCTION_COLUMNS = "<  <  >  >  >"


class FunctionOrder(NamedTuple):
    """The order of a function in one window: by importance, then by the size of its change."""

    rank: int
    by_batches: bool
    minus_size: float


@dataclass(frozen=True)
class FunctionRow:
    """A function of one NIC in the window of traffic where it changed most."""

    window: str
    record: FunctionChange
    order: FunctionOrder

    @property
    def cells(self) -> tuple[str, ...]:
        one = self.record
        return (str(one.function), self.window, f"{one.a:.2f}", f"{one.b:.2f}", f"{one.change:+.2f}")

    @property
    def notes(self) -> list[str]:
        """What else is known of the function, one sentence each."""
        one = self.record
        found = [one.source] if one.source else []
        # A driver that is a module is named behind its function.
        found += [f"{Comparison.DRIVER}, built in"] if one.comparison is Comparison.DRIVER and not one.module else []
        found += ["same code"] if one.same_code and one.comparison is Comparison.CHANGED else []
        found += [f"was {one.was}"] if one.was else []
        found += [f"misses the limit {one.missed}"] if one.missed else []
        usual = one.comparison is Comparison.SHIFTING and abs(one.change) <= SHIFT
        return [*found, *([f"{Comparison.SHIFTING}: not judged by itself"] if usual else [])]


def window_of(result_id: str) -> str:
    """Return the name of the window of an exact result: ``frame-60-rx``; empty for a result without a window."""
    last = result_id.rpartition("/")[2]
    return "" if last == "pair" or last.startswith("qemu=") else last


def exact_label(result_id: str) -> str:
    """Return the short name of an exact metric: ``macb frame-60-rx``."""
    return f"{CombinationId.parse(result_id).nic} {window_of(result_id)}".strip()


def by_nic(results: Iterable[ResultRecord]) -> dict[str, list[ResultRecord]]:
    """Return the exact results of each NIC."""
    return grouped((one.exact.nic, one) for one in results if one.exact is not None)


def function_rows(results: Sequence[ResultRecord]) -> list[FunctionRow]:
    """Return the functions that changed in any of these results of one NIC: what makes a window fail is first.

    Functions with the same code in both builds are behind all others. Functions of the module that the build changes
    are before functions of other modules, larger changes before smaller ones. A function that changed in batches, and
    not one by one in the same direction, is behind them: it follows from other batches.
    Each function has the window that shows its change best. At full load, other functions change with any other binary;
    they count only in a window that is slower or faster.
    """
    found: dict[str, FunctionRow] = {}
    failing: set[str] = set()
    one_by_one = {_way(window) for one in results if is_one_by_one(window := window_of(one.id))}
    for result in filter(_telling, results):
        exact, window = result.exact, window_of(result.id)
        if exact is None:
            continue
        for one in exact.functions:
            label, row = str(one.function), FunctionRow(window, one, _order(one, exact, window))
            if label not in found or row.order < found[label].order:
                found[label] = row
            if one.missed or (one.change > 0 and Verdict.FAIL in _verdicts(result)):
                failing.add(label)

    def place(label: str) -> tuple[object, ...]:
        row = found[label]
        rank, by_batches, minus_size = row.order
        is_last = rank > OF_CHANGE or (by_batches and _way(row.window) in one_by_one)
        return row.record.same_code, is_last, label not in failing, rank, minus_size, label

    return [found[label] for label in sorted(found, key=place)]


def _way(window: str) -> str:
    return window.rpartition("-")[2]


def _telling(result: ResultRecord) -> bool:
    if is_one_by_one(window_of(result.id)) or result.change is None:
        return True
    return any(one is not Verdict.PASS for one in _verdicts(result))


def _verdicts(result: ResultRecord) -> list[Verdict]:
    return [one.verdict for one in result.change.directions.values()] if result.change is not None else []


def _order(one: FunctionChange, exact: ExactChangeRecord, window: str) -> FunctionOrder:
    """Return the order of a function in a window.

    The changed code itself shows best where frames come one by one: elsewhere, its counts also depend on the batches.
    The change of another function is compared with all instructions of the window.
    """
    rank = importance(one, exact.modules)
    if rank <= OF_CHANGE:
        return FunctionOrder(rank, not is_one_by_one(window), -abs(one.change))
    return FunctionOrder(rank, False, -abs(one.change) / (exact.a.instructions or 1.0))


def function_lines(rows: Sequence[FunctionRow], indent: str = "") -> list[str]:
    """Return a table of the first functions for a terminal, with what else is known of each below it."""
    shown, width = rows[:MOST_FUNCTIONS], WIDTH - len(indent)
    notes = [wrap("; ".join(row.notes), indent="    ", width=width) if row.notes else [] for row in shown]
    lines = text_table(
        [FUNCTION_HEADS, *(row.cells for row in shown)], _FUNCTION_COLUMNS, width, notes=notes, whole=True
    )
    more = len(rows) - len(shown)
    lines += [f"and {more} more functions, in results.json"] if more else []
    return [f"{indent}{line}" for line in lines]


def sum_cells(instructions: tuple[float, float] | None) -> tuple[str, str, str]:
    """Return the cells for all instructions for each packet: A, B and the relative change."""
    if instructions is None:
        return "-", "-", "-"
    before, after = instructions
    return f"{before:.2f}", f"{after:.2f}", signed_percent(after / before - 1 if before else None, 2)


def rate_text(window: str, exact: ExactChangeRecord, side: ExactSideRecord) -> str:
    """Return what a window is about, in virtual time: ``5297 pps``, of requests ``1017 /s``, of TCP ``75.7 Mbit/s``.

    Of an event, this is the time until its first answer.
    """
    if is_event(window):
        return f"{side.virtual_ns / 1e6:.3f} ms"
    if window.startswith(TCP):
        return rate(exact.octets * 8e9 / side.virtual_ns)
    return f"{side.packets_per_second:.0f} {'/s' if exact.unit == 'answer' else 'pps'}"


def exact_cells(entry: ChangeEntryRecord, exact: ExactChangeRecord | None) -> tuple[str, ...]:
    """Return the cells of a metric: instructions for each packet, then the rate of B in virtual time and its change."""
    rate_of_b = "-" if exact is None else rate_text(window_of(entry.id), exact, exact.b)
    return (*sum_cells(instructions_of(exact)), rate_of_b, signed_percent(entry.change, 2))


def board_text(exact: ExactChangeRecord) -> str:
    """Return where the values come from: ``virt with gem, QEMU 7.2.22 (emulated, exact)``."""
    processors = "" if exact.processors == 1 else f", {exact.processors} CPUs"
    return f"{exact.machine} with {exact.device}{processors}, QEMU {exact.qemu} ({MARK})"


def shift_text(exact: ExactChangeRecord) -> str:
    """Return how much of the change of the sum is not judged; empty if it is nothing."""
    if abs(exact.shift) < ROUNDING:
        return ""
    differing = "functions that differ between any two binaries (allocators, scheduler, timers)"
    return f"{exact.shift:+.2f} of the change is in {differing}. This part is not judged."


def once(texts: Iterable[str]) -> list[str]:
    """Return each text once, without empty texts."""
    return list(dict.fromkeys(filter(None, texts)))


def without_repeats(told: Sequence[T], nothing: T) -> list[T]:
    """Return the same, with ``nothing`` for what repeats the one before it: a shared reason stands once."""
    return [own if own != before else nothing for before, own in pairwise([nothing, *told])]


def board_lines(results: Sequence[ResultRecord]) -> list[str]:
    """Return what is to be known of the values of these exact results: boards, times, and why functions are missing."""
    records = [one.exact for one in results if one.exact is not None]
    boards = once(f"{one.nic}: {board_text(one)}" for one in records)
    boots = [f"{nic} {_boots_text(own[0].change.turns)}" for nic, own in by_nic(results).items() if own[0].change]
    times = [f"time of the boots: {'; '.join(boots)}"] if boots else []
    missing = once(f"functions were not counted: {one.no_functions}" for one in records if one.no_functions)
    return [*boards, *times, *missing]


def _boots_text(turns: Sequence[TurnRecord]) -> str:
    """Return how long the boots of each build took: ``A cached, B 6.6 s``. A boot of the cache took no time."""
    seconds: dict[str, float] = {}
    for turn in turns:
        seconds[turn.side] = seconds.get(turn.side, 0.0) + turn.seconds
    return ", ".join(f"{side} {f'{took:.1f} s' if took else 'cached'}" for side, took in seconds.items())
