"""The text of a failed test, in place of a traceback: what, how much, the cause, what to do, where the evidence is.

The text has at most MOST_LINES lines. `failure_details` has all that is known; the raw folder keeps it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import PurePosixPath
from statistics import median

from pytest_pinet.model.connection import Fresh
from pytest_pinet.model.evidence import Cause
from pytest_pinet.model.judgement import EvennessJudgement
from pytest_pinet.model.record.change import ExactChangeRecord
from pytest_pinet.model.record.measurement import ConnectionRecord, DirectionRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict
from pytest_pinet.report.exact_text import (
    board_text,
    exact_label,
    function_lines,
    function_rows,
    rate_text,
    shift_text,
    window_of,
)
from pytest_pinet.report.sentences import evenness_note, limited_by_text, scale_text
from pytest_pinet.report.text_wrap import CONTINUED, WIDTH, copyable, plain, rate, rates, wrap, wrap_command

_NAME_WIDTH = 11
# Distinguishes a continued line from a new row.
_HANGING = " " * (_NAME_WIDTH + 4)
# The page that says when the error rate holds.
ERROR_RATES = "docs/explanation/error-rates.md"
MOST_LINES = 12
# The file of the raw folder with the details.
DETAILS = "failure.txt"
# What to do about each cause; a value without a cause has the advice of NOTHING.
_ACTS = {
    Cause.LINE_RATE: "the link is full: correct the limit, or use a faster link",
    Cause.SENDER: "raise the rate at which the test sends, or lower its limit",
    Cause.LINK: "check cable, connector and the settings of the switch port",
    Cause.POWER: "cool the board, or use a stronger power supply",
    Cause.USB: "use a faster port if the board has one, or lower the limit",
    Cause.PCIE: "lower the limit, or change the settings of the PCIe link",
    Cause.OTHERS: "end these programs, or keep them off the ends while tests run",
    Cause.PEER: "use a faster peer, or lower the limit",
    Cause.SHAPER: "look for a shaper or flow control at the ends and the switch",
}
_COMPARE = "repeat it with a build that is known to be good ('pinet gate')"
_UNJUDGED = {
    Verdict.INVALID: "mend what the first lines say, then repeat it: it blames no build",
    Verdict.INCONCLUSIVE: "repeat it, with a longer profile if it stays undecided",
}
# The row that each text has.
_ENDS = "  ends "


@dataclass(frozen=True)
class _Block:
    """Lines of the text. If it is too long, blocks of the highest ``rank`` are left out first, rank 0 never."""

    rank: int
    lines: list[str]


def failure_text(result: ResultRecord, run_folder: str | None = None) -> str:
    """Return at most MOST_LINES lines on a result that is not good. ``run_folder`` is put before the path of the files.

    A path or a word of a command that is wider than the terminal counts as the lines that it takes.
    """
    blocks = _exact_blocks(result, result.exact) if result.exact is not None else _value_blocks(result)
    if result.limited_by is not None:
        blocks.append(_Block(2, _cut(_row("limited by", limited_by_text(result)), 2)))
    if result.exact is None and (act := _act(result)):
        blocks.append(_Block(1, _row("to do", act)))
    blocks += [_Block(7, _cut(_row("note", note), 2)) for note in result.notes[:2]]
    blocks.append(_Block(6, _row("scale", scaled) if (scaled := scale_text([result])) else []))
    return "\n".join(_fitted([*blocks, *_places(result, run_folder)]))


def _value_blocks(result: ResultRecord) -> list[_Block]:
    """Return the values that missed their limits, and how sure they are; else the message."""
    even = result.evenness
    bad = [(name, one) for name, one in sorted(result.directions.items(), key=_severity) if one.verdict not in GOOD]
    bad += [(one.name, one) for one in result.flows if one.verdict not in GOOD]
    heads = [_headline(name, direction) for name, direction in bad]
    if even is not None and even.verdict not in GOOD:
        heads.insert(0, _uneven(even))
    if not heads:
        return _message_blocks(result)
    first, *others = heads
    blocks = [_Block(0, _cut(first, 4))]
    blocks += [_Block(3, _cut(one, 2)) for one in others[:1]]
    if len(others) > 1:
        blocks.append(_Block(3, [f"and {len(others) - 1} more, in {DETAILS}"]))
    for _, direction in bad[:1]:
        blocks.append(_Block(5, _interval(direction, _alternated(result))))
        if direction.baseline is not None:
            blocks.append(_Block(6, _cut(_row("baseline", direction.baseline.text), 2)))
    good = [(name, one) for name, one in result.directions.items() if one.verdict in GOOD]
    return [*blocks, *(_Block(8, _cut(_headline(name, one), 1)) for name, one in good)]


def _message_blocks(result: ResultRecord) -> list[_Block]:
    """Return the message: what happened, and what to do, which begins with an arrow."""
    lines = _message(result)
    acts = next((number for number, line in enumerate(lines) if line.startswith("  -> ")), len(lines))
    return [_Block(0, _cut(lines[:acts], 5)), _Block(1, _cut(lines[acts:], 3))]


def _exact_blocks(result: ResultRecord, exact: ExactChangeRecord, whole: bool = False) -> list[_Block]:
    """Return the reason of an exact result, and the functions that changed: the first ones, or all if ``whole``."""
    reason = [
        line
        for direction in result.directions.values()
        for line in wrap(f"{exact_label(result.id)}: {direction.reason}", hanging=CONTINUED)
    ]
    rows, board = function_rows([result]), _row("board", board_text(exact))
    a, b = (rate_text(window_of(result.id), exact, side) for side in (exact.a, exact.b))
    return [
        _Block(0, reason if whole else _cut(reason, 4)),
        _Block(2, function_lines(rows if whole else rows[:2], indent="  ")),
        _Block(5, _row("rate", f"{a} -> {b} (virtual time)")),
        _Block(7, _row("shift", shifted) if (shifted := shift_text(exact)) else []),
        _Block(6, board if whole else _cut(board, 1)),
    ]


def _act(result: ResultRecord) -> str:
    if not result.directions or _alternated(result):
        # The message says it, or the notes say what differs.
        return ""
    if result.verdict in _UNJUDGED:
        return _UNJUDGED[result.verdict]
    cause = result.limited_by.cause if result.limited_by is not None else Cause.NOTHING
    return _ACTS.get(Cause(cause), _COMPARE)


def _interval(direction: DirectionRecord, alternated: bool) -> list[str]:
    """Return where the true value lies."""
    if direction.interval_bps is None:
        return []
    low, high = rates(*direction.interval_bps)
    text = f"{low} to {high} at {direction.error_rate * 100:g} % error"
    return _row("interval", text + ("" if alternated else f": {ERROR_RATES}"))


def _alternated(result: ResultRecord) -> bool:
    """Return whether two states or builds were measured alternately: slow drift of the lab then cancels out."""
    return result.comparison is not None or result.change is not None


def _places(result: ResultRecord, run_folder: str | None) -> list[_Block]:
    blocks = []
    if result.exact is None:
        blocks.append(_Block(4, _cut(_ends_row(result), 2)))
    if raw := _raw_row(result, run_folder):
        blocks.append(_Block(0, [raw]))
    if result.rerun:
        command = _repeat(result)
        most = 5 if result.files else len(command)
        blocks.append(_Block(3, command if _height(command) <= most else _row("repeat", f"the command in {DETAILS}")))
    return blocks


def _cut(lines: list[str], most: int) -> list[str]:
    """Return at most ``most`` lines, with a mark if there are more."""
    if len(lines) <= most:
        return lines
    last, room = lines[most - 1], WIDTH - 4
    if len(last) > room and (words := last[: room + 1].rpartition(" ")[0].rstrip()):
        last = words
    return [*lines[: most - 1], f"{last[:room]} ..."]


def _fitted(blocks: list[_Block]) -> list[str]:
    """Return the lines of the blocks, without the blocks of the highest ranks if they are more than MOST_LINES."""
    kept = [block for block in blocks if block.lines]
    while sum(_height(block.lines) for block in kept) > MOST_LINES and (worst := max(one.rank for one in kept)):
        kept.remove(next(block for block in reversed(kept) if block.rank == worst))
    return [line for block in kept for line in block.lines]


def _height(lines: list[str]) -> int:
    return sum(max(1, math.ceil(len(line) / WIDTH)) for line in lines)


def failure_details(result: ResultRecord, run_folder: str | None = None) -> str:
    """Return all that is known of a result that is not good. Arguments as for `failure_text`."""
    if result.exact is not None:
        blocks = _exact_blocks(result, result.exact, whole=True)
        return "\n".join([*(line for block in blocks for line in block.lines), *_surroundings(result, run_folder)])
    lines: list[str] = []
    alternated = _alternated(result)
    even = result.evenness
    if even is not None and even.verdict not in GOOD:
        lines += _uneven(even)
    bad = [(name, one) for name, one in sorted(result.directions.items(), key=_severity) if one.verdict not in GOOD]
    for name, direction in bad:
        lines += _headline(name, direction)
        if direction.oracle not in direction.reason:
            lines += _row("physical", f"{rate(direction.oracle_bps)} ({direction.oracle})")
        lines += _connections(direction, alternated)
        if direction.baseline is not None:
            lines += _row("baseline", direction.baseline.text)
        if direction.samples:
            lines += _row("samples", _samples(direction))
    for flow in sorted(result.flows, key=lambda flow: SEVERITY.index(flow.verdict)):
        if flow.verdict not in GOOD:
            lines += _headline(flow.name, flow)
            lines += _connections(flow, alternated)
            lines += _row("samples", _samples(flow))
    # Good directions come last, since they are not the reason of the failure.
    for name, direction in sorted(result.directions.items(), key=_severity):
        if direction.verdict in GOOD and (direction.limit_bps is not None or not lines):
            lines += _headline(name, direction)
    if even is not None:
        lines += _row("flows", evenness_note(result))
    return "\n".join([*(lines or _message(result)), *_surroundings(result, run_folder)])


def error_text(result: ResultRecord, run_folder: str | None = None) -> str:
    """Return the text of a lab error, in at most MOST_LINES lines: what happened, who must act, and where.

    The console output is a file of the raw folder. The message can be the text of a measurement already, in a test of
    two builds.
    """
    if f"\n{_ENDS}" in result.message:
        return result.message
    return "\n".join(_fitted([*_message_blocks(result), *_places(result, run_folder)]))


def _message(result: ResultRecord) -> list[str]:
    message = result.message.strip() or f"no value was obtained ({result.verdict})"
    return [
        wrapped
        for line in message.splitlines()
        for wrapped in wrap(line, indent="  " * line.startswith(" "), hanging=CONTINUED)
    ]


def _uneven(even: EvennessJudgement) -> list[str]:
    return wrap(f"{even.reason} ({'; '.join(limit.source for limit in even.limits)})", hanging=CONTINUED)


def _severity(item: tuple[str, DirectionRecord]) -> tuple[int, str]:
    return SEVERITY.index(item[1].verdict), item[0]


def _headline(name: str, direction: DirectionRecord) -> list[str]:
    limit = direction.limit
    # A direction can also fail at a good goodput, such as by failed requests.
    met = limit is None or not limit.number or direction.goodput_bps >= limit.number
    missed = [extra for extra in direction.extras if extra.verdict in (Verdict.FAIL, Verdict.INVALID)]
    texts = [f"{name} {extra.reason} ({extra.limit.source})" for extra in missed]
    costs = [line for text in texts for line in wrap(text, hanging=CONTINUED)]
    if limit is None or met or direction.verdict != Verdict.FAIL:
        return [*(costs if met else []), *wrap(f"{name} {direction.reason}", hanging=CONTINUED)]
    below = (1 - direction.goodput_bps / limit.number) * 100
    # A deviation of 0.003 % must not print as "0.0 %".
    percent = f"{below:.1f}" if below >= 0.05 else f"{below:.1g}"
    first = f"{name} {rate(direction.goodput_bps)} is {percent} % below the limit {rate(limit.number)}"
    rest = f"({limit.source})" if limit.words == rate(limit.number) else f"= {limit}"
    if len(plain(first)) + 1 + len(plain(rest)) <= WIDTH:
        return [*wrap(f"{first} {rest}"), *costs]
    return [*wrap(first, hanging=CONTINUED), *wrap(rest, indent=CONTINUED), *costs]


def _connections(direction: DirectionRecord, alternated: bool) -> list[str]:
    """Return the goodput of each connection, the interval, and why the measurement stopped."""
    if len(direction.connections) < 2:
        return []
    each = [_connection(one) for one in direction.connections]
    lines = _row("attempts", ", ".join(each))
    if left_out := [one.excluded for one in direction.connections if one.excluded]:
        lines += _row("left out", f"{len(left_out)} of {len(each)} connections, the first: {left_out[0]}")
    lines += _interval(direction, alternated)
    repeated = direction.stopped in direction.reason and direction.verdict != Verdict.FAIL
    return lines if repeated else [*lines, *_row("stopped", direction.stopped)]


def _connection(one: ConnectionRecord) -> str:
    if one.excluded:
        return "left out"
    return rate(one.goodput_bps) + (" (fresh link-up)" if one.fresh == Fresh.LINK else "")


def _samples(direction: DirectionRecord) -> str:
    found = [sample.bps for sample in direction.samples if not sample.warmup and sample.seconds > 0]
    parts = []
    if found:
        low, middle, high = rates(min(found), median(found), max(found))
        parts.append(f"{len(found)}: min {low}, median {middle}, max {high}")
    if direction.retransmits is not None:
        parts.append(f"{direction.retransmits} retransmits")
    if direction.lost_packets is not None:
        of = f" of {direction.packets}" if direction.packets is not None else ""
        parts.append(f"lost {direction.lost_packets}{of} packets")
    return "; ".join(parts) or "none"


def _surroundings(result: ResultRecord, run_folder: str | None) -> list[str]:
    lines: list[str] = []
    for note in result.notes:
        lines += _row("" if lines else "notes", note, hanging=_HANGING)
    lines += _row("limited by", limited) if (limited := limited_by_text(result)) else []
    lines += _row("link", result.link) if result.link else []
    lines += _row("scale", scaled) if (scaled := scale_text([result])) else []
    if result.exact is None:
        lines += _ends_row(result)
    if raw := _raw_row(result, run_folder):
        lines.append(raw)
    if result.rerun:
        lines += _repeat(result)
    return lines


def _ends_row(result: ResultRecord) -> list[str]:
    combination = result.combination
    ends = [(combination.dut, combination.dut_port), (combination.peer, combination.peer_port)]
    dut, peer = (f"{end} at {port}" if port else end for end, port in ends)
    return _row(_ENDS.strip(), f"{dut} (DUT), {peer} (peer)")


def _raw_row(result: ResultRecord, run_folder: str | None) -> str:
    if not result.files:
        return ""
    folder = PurePosixPath(run_folder or "") / PurePosixPath(result.files[0]).parent
    return f"  {'raw':{_NAME_WIDTH}}{copyable(str(folder))}"


def _repeat(result: ResultRecord) -> list[str]:
    return wrap_command(result.rerun, f"  {'repeat':{_NAME_WIDTH}}", _HANGING)


def _row(name: str, text: str, hanging: str = " " * (_NAME_WIDTH + 2)) -> list[str]:
    return wrap(text, indent=f"  {name:{_NAME_WIDTH}}", hanging=hanging)
