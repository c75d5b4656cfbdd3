"""The table of every published value, the value that a run measured under its conditions, and their difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.published import (
    BOTH_WAYS,
    CAPPED,
    HTTP,
    HTTP_HEAD,
    INCAST,
    ONE_WAY,
    PAIRS,
    PublishedFigure,
)
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.sentences import scale_text
from pytest_pinet.report.text_wrap import WIDTH, first_paragraph, signed_percent, text_table

# A number in the key of traffic, such as pb40M.
_NUMBER = re.compile(r"(pb|P|w|M|b)(\d+\.?\d*|\.\d+)M?")
_PLAIN_MTU = 1500
_PLAIN_PAYLOAD = 128
_LARGE_PAYLOAD = "pcie_bus_perf"
_NO_TIMESTAMPS = "no TCP timestamps"
_ONBOARD = "onboard"
# Tunings that spread a NIC's work over the processors. Some published values differ only in them.
_SPREADING = {"irq", "rps", "xps"}
# The switch under test of S2 is a gigabit switch. The source does not name the boards.
_SPEED_OF_PAIRS = "1000 Mbit/s"


@dataclass(frozen=True)
class Sent:
    """The parsed traffic part of an ID (``tcp-P10-pb40M-bidir``)."""

    kind: str
    flags: frozenset[str] = frozenset()
    numbers: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, key: str) -> Sent:
        """Parse a traffic key. Parts that are no numbers are flags."""
        kind, *parts = key.split("-")
        found = {part: _NUMBER.fullmatch(part) for part in parts}
        numbers = {match[1]: float(match[2]) for match in found.values() if match}
        return cls(kind, frozenset(part for part, match in found.items() if not match), numbers)

    def is_for(self, figure: PublishedFigure) -> bool:
        if (self.kind == HTTP) != (figure.mode == HTTP) or self.kind not in ("tcp", HTTP):
            return False
        cap = self.numbers.get("pb", 0.0) * self.numbers.get("P", 1.0)
        wanted = {
            "P": figure.streams,
            "w": None if figure.window_kib is None else figure.window_kib * 1024,
            "M": figure.mss,
        }
        return (
            all(self.numbers.get(name, 1.0) == value for name, value in wanted.items() if value is not None)
            and ("w" in self.numbers) == (figure.window_kib is not None)
            and ("M" in self.numbers) == (figure.mss is not None)
            and ("bidir" in self.flags) == figure.both_ways
            and cap == (figure.peer_cap_mbps or 0.0)
            and "b" not in self.numbers
            and not any(flag.startswith(("ip6", "vlan", "delay", "loss", "bg.")) for flag in self.flags)
        )


def results_of(figure: PublishedFigure, results: Sequence[ResultRecord]) -> list[ResultRecord]:
    """Return the results that were measured under this value's conditions, the best one last.

    Results with values come after results without, and results with fewer tunings after results with more.
    """
    found = [result for result in results if _is_of(figure, result)]
    return sorted(found, key=lambda result: (bool(result.directions), -len(_requested(result))))


def numbers_of(figure: PublishedFigure, result: ResultRecord) -> tuple[float, ...]:
    """Return the numbers in Mbit/s to compare with the published ones, as many as there are.

    If one number stands for several flows, this is the slowest flow. For HTTP it is whole responses with their headers.
    """
    if figure.mode == HTTP:
        http = result.http
        assert http is not None, "the traffic of an HTTP value is HTTP"
        return (http.requests_per_s * (http.size_bytes + HTTP_HEAD) * 8 / 1e6,)
    flows = [flow.goodput_bps / 1e6 for flow in result.flows]
    if figure.mode in (PAIRS, INCAST):
        return tuple(flows) if len(figure.mbps) == len(flows) else (min(flows),)
    return tuple(result.directions[way].goodput_bps / 1e6 for way in _ways(figure))


def _ways(figure: PublishedFigure) -> tuple[str, ...]:
    """Return the directions of the published numbers."""
    if figure.both_ways and figure.direction is None:
        return ("tx", "rx")
    return ("rx" if figure.mode == INCAST else figure.direction or "tx",)


def _is_of(figure: PublishedFigure, result: ResultRecord) -> bool:
    combination = result.combination
    if not combination.traffic or combination.topology != _topology(figure):
        return False
    return (
        Sent.read(combination.traffic).is_for(figure)
        and (not result.directions or result.directions.keys() >= set(_ways(figure)))
        and _is_hardware_of(figure, result)
        and _is_tuned_for(figure, result)
    )


def _topology(figure: PublishedFigure) -> str:
    if figure.mode in (ONE_WAY, BOTH_WAYS, CAPPED, HTTP):
        return "pair"
    if figure.mode == INCAST:
        return f"incast:{figure.senders}"
    return f"pairs:{figure.pairs or len(figure.mbps)}"


def _is_hardware_of(figure: PublishedFigure, result: ResultRecord) -> bool:
    combination, link = result.combination, result.link
    if figure.board is None:
        return link is None or link.startswith(_SPEED_OF_PAIRS)
    board = load().boards[figure.board]
    label = _ONBOARD if figure.nic == board.onboard else figure.nic
    return bool(combination.board == figure.board and combination.nic == label)


def _is_tuned_for(figure: PublishedFigure, result: ResultRecord) -> bool:
    """Return whether clock, payload and MTU match: requested tunings must hold, and all else must have usual values."""
    requested, held = _requested(result), _held(result)
    if figure.settings is not None and not held.keys() & _SPREADING == set(figure.settings) == requested & _SPREADING:
        return False
    clock, kernel = held.get("arm_freq"), held.get("kernel", "")
    if figure.clock_mhz is not None:
        stock = load().boards[figure.board or ""].clock_mhz
        if figure.clock_mhz != (stock if "arm_freq" not in requested else clock and int(clock)):
            return False
    elif "arm_freq" in requested:
        return False
    if figure.payload is not None and (figure.payload > _PLAIN_PAYLOAD) != (_LARGE_PAYLOAD in kernel):
        return False
    if figure.timestamps is False:
        oracles = [direction.oracle for direction in result.directions.values()]
        if not all(_NO_TIMESTAMPS in oracle for oracle in oracles):
            return False
    return result.link is None or result.link.endswith(f"MTU {figure.mtu or _PLAIN_MTU}")


def _requested(result: ResultRecord) -> set[str]:
    return {one.name for one in result.tunings or ()}


def _held(result: ResultRecord) -> dict[str, str]:
    """Return the settings that hold on all ends that have them."""
    lost = {one.name for one in result.tunings or () if not one.outcome.holds}
    return {one.name: one.asked for one in result.tunings or () if one.name not in lost}


# The largest accepted differences. Bidirectional values vary by several percent between runs of their own sources.
TOLERANCE, TOLERANCE_OF_BOTH = 0.03, 0.10
EMULATED = "emulated"
OK, OFF, NOT_MEASURED, NOT_EMULATED = "ok", "off", "not measured", "not emulated"


@dataclass(frozen=True)
class PublishedRow:
    """One row. ``difference`` is relative, the largest of several numbers; None if there is nothing to compare."""

    figure: PublishedFigure
    found: tuple[float, ...]
    difference: float | None
    verdict: str
    why: str = ""

    @property
    def surprising(self) -> bool:
        """Whether a number is off although no source doubts it."""
        return self.verdict == OFF and not self.figure.suspect

    @property
    def missing(self) -> bool:
        """Whether there is nothing to compare, although the lab could measure the value and no source doubts it."""
        return self.verdict not in (OK, OFF, NOT_EMULATED) and not self.figure.suspect


def rows(figures: Iterable[PublishedFigure], results: Sequence[ResultRecord], emulated: bool) -> list[PublishedRow]:
    """Return a row for each published value. ``emulated``: the results are of a virtual lab."""
    return [_row(figure, results, emulated) for figure in figures]


def table(found: Sequence[PublishedRow], emulated: bool) -> list[str]:
    """Return the table in at most WIDTH columns, with notes on single rows below it."""
    notes: dict[str, int] = {}
    cells = [("value", "published", EMULATED if emulated else "measured", "difference", "verdict")]
    for row in found:
        why = "; ".join(filter(None, (row.why, row.figure.suspect if row.verdict == OFF else "")))
        mark = f" [{notes.setdefault(why, len(notes) + 1)}]" if why else ""
        difference = signed_percent(row.difference).replace("%", " %")
        cells.append((row.figure.id, _published(row.figure), _text(row.found), difference, row.verdict + mark))
    lines = text_table(cells, "<  >  >  >  <")
    lines.insert(1, "-" * max(map(len, lines)))
    for why, number in notes.items():
        lines += wrap(f"[{number}] {why}", WIDTH, subsequent_indent="    ")
    return lines


def summary(found: Sequence[PublishedRow]) -> str:
    """Return the number of each verdict, in one line."""
    counts = Counter(row.verdict for row in found)
    return f"{len(found)} published values: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def page(found: Sequence[PublishedRow], runs: Sequence[RunRecord]) -> str:
    """Return ``docs/reference/published.md`` for one run, or for several of one lab, the latest last."""
    run = runs[-1]
    which = "the run" if len(runs) == 1 else f"{len(runs)} runs, the latest one"
    emulated = run.figures == EMULATED
    kind = (
        """\
These values are emulated: the virtual lab shapes its links by `catalogue/link_models.yaml`. They show that
the suites and the models reproduce the published values. They do not show what a board can do."""
        if emulated
        else "These values were measured on hardware."
    )
    made = f"""\
Generated by `pinet compare published -o docs/reference/published.md` from {which} of {run.started[:16]} UTC on lab \
{run.lab}. Do not edit it."""
    if scaled := scale_text(result for one in runs for result in one.results):
        kind += f" {scaled.capitalize()}."
    how = f"""\
A value is `ok` if it differs by at most {TOLERANCE:.0%}, or by at most {TOLERANCE_OF_BOTH:.0%} if both directions run
at once. All values are Mbit/s of goodput at the receiver. Several numbers belong to several pairs at once, to both
directions (tx, rx), or to a range."""
    text = "\n".join(table(found, emulated))
    return f"""# Published values, measured again

{_wrapped(made)}

{_wrapped(kind)}
{_wrapped(how)}

```
{text}
```

{_wrapped(summary(found))}.
"""


def _wrapped(text: str) -> str:
    return "\n".join(wrap(text, WIDTH, break_on_hyphens=False, break_long_words=False))


def _row(figure: PublishedFigure, results: Sequence[ResultRecord], emulated: bool) -> PublishedRow:
    if emulated and figure.not_emulated:
        return PublishedRow(figure, (), None, NOT_EMULATED, figure.not_emulated)
    of_figure = results_of(figure, results)
    if not of_figure:
        return PublishedRow(figure, (), None, NOT_MEASURED)
    result = of_figure[-1]
    if not result.directions:
        return PublishedRow(figure, (), None, result.verdict, _first_sentence(result.message))
    found = numbers_of(figure, result)
    if result.verdict == Verdict.INVALID:
        return PublishedRow(figure, found, None, result.verdict, _reason(result))
    difference = _difference(figure, found)
    allowed = TOLERANCE_OF_BOTH if figure.both_ways else TOLERANCE
    return PublishedRow(figure, found, difference, OK if abs(difference) <= allowed else OFF, _requests(figure, result))


def _difference(figure: PublishedFigure, found: Sequence[float]) -> float:
    """Return the relative difference that is largest; 0 if the value is in the range, or above the lower bound."""
    if len(found) == len(figure.mbps) > 1:
        return max((got / wanted - 1 for got, wanted in zip(found, figure.mbps, strict=True)), key=abs)
    least, most = min(figure.mbps), max(figure.mbps)
    (got,) = found
    if figure.at_least and got >= least:
        return 0.0
    return 0.0 if least <= got <= most else min(got / least - 1, got / most - 1, key=abs)


def _requests(figure: PublishedFigure, result: ResultRecord) -> str:
    if not figure.requests_per_s or result.http is None:
        return ""
    return f"{result.http.requests_per_s:.0f} requests/s, published: {figure.requests_per_s:.0f}"


def _first_sentence(message: str) -> str:
    return first_paragraph(message).partition("; ")[0]


def _reason(result: ResultRecord) -> str:
    """Return why the result's values are invalid, without the values."""
    reasons = [one.reason for one in result.directions.values() if one.verdict == Verdict.INVALID]
    return _first_sentence(next(iter(reasons), result.message).rpartition(" is invalid: ")[2])


def _published(figure: PublishedFigure) -> str:
    if figure.at_least:
        return f">= {_number(figure.mbps[0])}"
    if figure.mode == ONE_WAY and len(figure.mbps) > 1:
        return "-".join(_number(one) for one in figure.mbps)
    return _text(figure.mbps)


def _text(mbps: Sequence[float]) -> str:
    return ", ".join(_number(one) for one in mbps) or "-"


def _number(mbps: float) -> str:
    return f"{mbps:.1f}".removesuffix(".0") if mbps < 100 else f"{mbps:.0f}"
