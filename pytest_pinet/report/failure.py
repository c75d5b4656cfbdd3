"""The text of a failed test, in place of a traceback: first the goodput, then the facts to check and repeat it."""

from __future__ import annotations

from pathlib import PurePosixPath
from statistics import median

from pytest_pinet.model.attempt import Fresh
from pytest_pinet.model.judgement import ExtraJudgement
from pytest_pinet.model.record.direction import AttemptRecord, DirectionRecord
from pytest_pinet.model.record.exact_change import ExactChangeRecord
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
# README, docs, --help and failures say when the error rate holds in the same words.
ERROR_RATE_HOLDS = "if the lab is calibrated, the baseline spans eight days, or the days differ by at most 0.8 %"
# The row that each text has.
_ENDS = "  ends "


def failure_text(result: ResultRecord, run_folder: str | None = None) -> str:
    """Return about eight lines on a result that is not good. ``run_folder`` is put before the path of the raw files."""
    if result.exact is not None:
        return "\n".join([*_exact(result, result.exact), *_surroundings(result, run_folder)])
    lines: list[str] = []
    # Slow drift of the lab cancels out if two states or two builds were measured alternately.
    alternated = result.comparison is not None or result.change is not None
    even = result.evenness
    if even is not None and even.verdict not in GOOD:
        lines += wrap(f"{even.reason} ({even.rule})", hanging=CONTINUED)
    bad = [(name, one) for name, one in sorted(result.directions.items(), key=_severity) if one.verdict not in GOOD]
    for name, direction in bad:
        lines += _headline(name, direction)
        if direction.oracle not in direction.reason:
            lines += _row("physical", f"{rate(direction.oracle_bps)} ({direction.oracle})")
        lines += _attempts(direction, alternated)
        if direction.baseline is not None:
            lines += _row("baseline", direction.baseline.text)
        if direction.samples:
            lines += _row("samples", _samples(direction))
    for flow in sorted(result.flows, key=lambda flow: SEVERITY.index(flow.verdict)):
        if flow.verdict not in GOOD:
            lines += _headline(flow.name, flow)
            lines += _attempts(flow, alternated)
            lines += _row("samples", _samples(flow))
    # Good directions come last, since they are not the reason of the failure.
    for name, direction in sorted(result.directions.items(), key=_severity):
        if direction.verdict in GOOD and (direction.limit_bps is not None or not lines):
            lines += _headline(name, direction)
    if even is not None:
        lines += _row("flows", evenness_note(result))
    return "\n".join([*(lines or _message(result)), *_surroundings(result, run_folder)])


def _exact(result: ResultRecord, exact: ExactChangeRecord) -> list[str]:
    """Return the reason of an exact result, and the functions that changed."""
    lines = [
        line
        for direction in result.directions.values()
        for line in wrap(f"{exact_label(result.id)}: {direction.reason}", hanging=CONTINUED)
    ]
    lines += function_lines(function_rows([result]), indent="  ")
    a, b = (rate_text(window_of(result.id), exact, side) for side in (exact.a, exact.b))
    lines += _row("rate", f"{a} -> {b} (virtual time)")
    lines += _row("shift", shifted) if (shifted := shift_text(exact)) else []
    return [*lines, *_row("board", board_text(exact))]


def error_text(result: ResultRecord, run_folder: str | None = None) -> str:
    """Return the text of a lab error: what happened, who must act, where, and the console output.

    The message can be the whole text of a measurement already, in a test of two builds.
    """
    if f"\n{_ENDS}" in result.message:
        return result.message
    return "\n".join([*_message(result), *_surroundings(result, run_folder), *_console(result)])


def _console(result: ResultRecord) -> list[str]:
    """Return the console excerpt line by line, without dates. Long lines are cut; the log file has all."""
    excerpt = (result.console_excerpt or "").splitlines()
    lines = [plain(line.partition("T")[2] if line[4:5] == "-" else line)[: WIDTH - 2] for line in excerpt]
    return ["  console", *(f"  {line}" for line in lines)] if lines else []


def _message(result: ResultRecord) -> list[str]:
    message = result.message.strip() or f"no value was obtained ({result.verdict})"
    return [
        wrapped
        for line in message.splitlines()
        for wrapped in wrap(line, indent="  " * line.startswith(" "), hanging=CONTINUED)
    ]


def _severity(item: tuple[str, DirectionRecord]) -> tuple[int, str]:
    return SEVERITY.index(item[1].verdict), item[0]


def _headline(name: str, direction: DirectionRecord) -> list[str]:
    limit = direction.limit_bps
    missed = [extra for extra in direction.extras if extra.verdict in (Verdict.FAIL, Verdict.INVALID)]
    costs = [line for extra in missed for line in wrap(f"{name} {_extra(extra)}", hanging=CONTINUED)]
    if missed and (not limit or direction.goodput_bps >= limit):
        return [*costs, *wrap(f"{name} {direction.reason}", hanging=CONTINUED)]
    # A direction can also fail at a good goodput, such as by failed requests.
    if direction.verdict != Verdict.FAIL or not limit or direction.goodput_bps >= limit:
        return wrap(f"{name} {direction.reason}", hanging=CONTINUED)
    below = (1 - direction.goodput_bps / limit) * 100
    # A deviation of 0.003 % must not print as "0.0 %".
    percent = f"{below:.1f}" if below >= 0.05 else f"{below:.1g}"
    first = f"{name} {rate(direction.goodput_bps)} is {percent} % below the limit {rate(limit)}"
    rule = direction.rule or "no rule"
    rest = rule.removeprefix(rate(limit)).strip() if rule.startswith(rate(limit)) else f"= {rule}"
    if len(plain(first)) + 1 + len(plain(rest)) <= WIDTH:
        return [*wrap(f"{first} {rest}"), *costs]
    return [*wrap(first, hanging=CONTINUED), *wrap(rest, indent=CONTINUED), *costs]


def _extra(extra: ExtraJudgement) -> str:
    """Return the reason, and where its limit is written: the reason already says the limit."""
    where = extra.rule.partition(" (")[2].removesuffix(")") if extra.rule else ""
    return f"{extra.reason} ({where})" if where else f"{extra.reason} ({extra.rule})"


def _attempts(direction: DirectionRecord, alternated: bool) -> list[str]:
    """Return the goodput of each connection, the interval, and why the measurement stopped."""
    if len(direction.attempts) < 2:
        return []
    each = [_attempt(attempt) for attempt in direction.attempts]
    lines = _row("attempts", ", ".join(each))
    if left_out := [attempt.excluded for attempt in direction.attempts if attempt.excluded]:
        lines += _row("left out", f"{len(left_out)} of {len(each)} connections, the first: {left_out[0]}")
    if direction.interval_bps is not None:
        low, high = rates(*direction.interval_bps)
        condition = "" if alternated else f" {ERROR_RATE_HOLDS}"
        text = f"{low} to {high} at {direction.error_rate * 100:g} % error{condition}"
        lines += _row("interval", text)
    repeated = direction.stopped in direction.reason and direction.verdict != Verdict.FAIL
    return lines if repeated else [*lines, *_row("stopped", direction.stopped)]


def _attempt(attempt: AttemptRecord) -> str:
    if attempt.excluded:
        return "left out"
    return rate(attempt.goodput_bps) + (" (fresh link-up)" if attempt.fresh == Fresh.LINK else "")


def _samples(direction: DirectionRecord) -> str:
    counted = [s for s in direction.samples if not s.warmup and s.seconds > 0]
    found = [s.bytes * 8 / s.seconds for s in counted]
    parts = []
    if found:
        parts.append(
            f"{len(found)}: " + "min {}, median {}, max {}".format(*rates(min(found), median(found), max(found)))
        )
    if direction.retransmits is not None:
        parts.append(f"{direction.retransmits} retransmits")
    if direction.lost_packets is not None:
        of = f" of {direction.packets}" if direction.packets is not None else ""
        parts.append(f"lost {direction.lost_packets}{of} packets")
    return "; ".join(parts) or "none"


def _surroundings(result: ResultRecord, run_folder: str | None) -> list[str]:
    combination = result.combination
    ends = [(combination.dut, combination.dut_port), (combination.peer, combination.peer_port)]
    dut, peer = (f"{end} at {port}" if port else end for end, port in ends)
    lines: list[str] = []
    for note in result.notes:
        lines += _row("" if lines else "notes", note, hanging=_HANGING)
    lines += _row("limited by", limited) if (limited := limited_by_text(result)) else []
    lines += _row("link", result.link) if result.link else []
    lines += _row("scale", scaled) if (scaled := scale_text([result])) else []
    if result.exact is None:
        lines += _row(_ENDS.strip(), f"{dut} (DUT), {peer} (peer)")
    if result.files:
        folder = PurePosixPath(run_folder or "") / PurePosixPath(result.files[0]).parent
        lines.append(f"  {'raw':{_NAME_WIDTH}}{copyable(str(folder))}")
    if result.rerun:
        lines += wrap_command(result.rerun, f"  {'repeat':{_NAME_WIDTH}}", _HANGING)
    return lines


def _row(name: str, text: str, hanging: str = " " * (_NAME_WIDTH + 2)) -> list[str]:
    return wrap(text, indent=f"  {name:{_NAME_WIDTH}}", hanging=hanging)
