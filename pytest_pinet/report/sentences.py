"""Sentences of results, of losses, and of a comparison of two sets of runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from pytest_pinet.config.baselines import load_reviewed
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.history.compare import MISSING, NOT_COMPARABLE, WORDS, Compared, RunSet
from pytest_pinet.history.history import open_history
from pytest_pinet.history.losses import Loss, LossState, MetricLevel, level_of
from pytest_pinet.history.points import LONG_LENGTH
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.limits import METRICS
from pytest_pinet.model.record.measurement import HttpRecord, LadderRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.tuning import Tuned
from pytest_pinet.report.text_wrap import (
    SIDES,
    WIDTH,
    count,
    rate,
    rates,
    side_cells,
    text_table,
    value_texts,
    wrap,
    wrap_each,
)

# Notes that differ only in these numbers have the same meaning.
_NUMBER = re.compile(r"\d[\d.]*(?: [kMGT]?bit/s)?")


def folded(notes: Iterable[str]) -> list[str]:
    """Return each note once. Of several notes that differ only in their numbers, the first stands for all."""
    alike = grouped((_NUMBER.sub("#", note), note) for note in dict.fromkeys(notes))
    return [f"{same[0]} (and {len(same) - 1} similar)" if len(same) > 1 else same[0] for same in alike.values()]


def limited_by_text(result: ResultRecord) -> str:
    """Return the bottleneck with its numbers; empty if it was not determined."""
    limited = result.limited_by
    return f"{limited.cause}: {limited.text}" if limited is not None else ""


def evenness_note(result: ResultRecord) -> str:
    """Return how evenly several flows shared the link, in one sentence."""
    even, goodputs = result.evenness, [flow.goodput_bps for flow in result.flows]
    assert even is not None, "only several flows share"
    least, most = rates(min(goodputs), max(goodputs))
    return (
        f"{len(goodputs)} flows, {least} to {most}; the worst got {even.least_share * 100:.1f} % of its fair share "
        f"({even.least_flow}), Jain's index {even.jain:.3f}"
    )


def scale_text(results: Iterable[ResultRecord]) -> str:
    """Return a note on all these results; empty if every link ran at full rate. Only rates of bits are converted."""
    every = list(results)
    text = scales_text(result.scale or 1.0 for result in every)
    return text.replace("values are", "values are not") if all(result.has_no_rate for result in every) else text


def scales_text(scales: Iterable[float]) -> str:
    """Return the note for these shares of the full link rate."""
    shares = sorted({share for share in scales if share != 1})
    if not shares:
        return ""
    listed = " and ".join(f"{share:g}" for share in shares)
    return f"links ran at {listed} of their rate; values are converted to full rate"


def tuning_notes(tunings: Iterable[Tuned]) -> list[str]:
    """Return a note for each setting without effect."""
    return [f"{one} (measured without this setting)" for one in dict.fromkeys(tunings) if not one.outcome.holds]


def ineffective(results: Sequence[ResultRecord]) -> list[str]:
    """Return a line for each setting without effect, once per run."""
    tunings = [tuned for result in results for tuned in result.tunings or ()]
    return list(dict.fromkeys(str(one) for one in tunings if not one.outcome.holds))


def apart_notes(skew_s: float | None, within_s: float | None, most_s: float) -> list[str]:
    """Return a note if flows did not begin within ``most_s``, or possibly did not."""
    if skew_s is None:
        return [
            "the start times of the flows are unknown: only the time that they shared, by this host's clock, counts"
        ]
    sure_s = within_s or 0.0
    if skew_s + sure_s <= most_s:
        return []
    text = f"the flows began {skew_s * 1000:.0f} ms apart" + (f" (give or take {sure_s * 1000:.0f} ms)" * bool(sure_s))
    if skew_s > most_s:
        return [f"{text}, although they were started twice: only the time that they shared counts"]
    return [f"{text}, which can be more than {most_s * 1000:.0f} ms: only the time that they shared counts"]


def traffic_notes(result: ResultRecord, most_s: float) -> list[str]:
    """Return a note on flows that did not begin within ``most_s``, on a ladder, and on requests."""
    apart = apart_notes(result.start_skew_s, result.start_skew_within_s, most_s) if result.windows else []
    return [*apart, *traffic_sentences(result)]


def traffic_sentences(result: ResultRecord) -> list[str]:
    """Return a sentence on a ladder, and one on requests."""
    ladder = [ladder_text(result.ladder)] if result.ladder is not None else []
    return [*ladder, *([http_text(result.http)] if result.http is not None else [])]


def versions_text(result: ResultRecord) -> str:
    """Return the versions of the tool at each end, and of kernel, driver and firmware of the device under test."""
    versions = [*result.versions.items(), *((f"dut {name}", value) for name, value in result.build.items())]
    return "".join(f"{name}: {value}\n" for name, value in versions if value)


def of_interest(figures: Mapping[str, FigureJudgement]) -> dict[str, FigureJudgement]:
    """Return the values that can have a limit; all if there is none, as with boots."""
    return {name: one for name, one in figures.items() if name in METRICS} or dict(figures)


def figures_text(figures: Mapping[str, FigureJudgement]) -> str:
    """Return a sentence: ``p90 1.2 ms (limit 2 ms), late 0.1%``."""
    texts = []
    for name, one in figures.items():
        show = one.kind(name).show
        limit = "" if one.limit is None else f" (limit {show(one.limit.number)})"
        texts.append(f"{name} {'unknown' if one.value is None else show(one.value)}{limit}")
    return ", ".join(texts)


def http_text(record: HttpRecord) -> str:
    """Return a sentence: ``11420 requests/s of 100000 bytes on 10 connections``."""
    failed = "".join(f", {count} {kind}" for kind, count in record.failed.items())
    requests = f"{record.requests_per_s:.0f} requests/s of {record.size_bytes} bytes"
    return f"{requests} on {record.connections} connections{failed}"


def ladder_text(record: LadderRecord) -> str:
    """Return a sentence on the highest rate that held, and on the first that did not."""
    tried = len(record.steps)
    bound = f"at most {record.loss * 100:g} % lost"
    if record.knee_bps is None:
        return f"none of {tried} rates was held with {bound}"
    last = record.steps[-1]
    text = f"{rate(record.knee_bps)} is the highest of {tried} rates held with {bound}"
    if last.held:
        return f"{text}, and also the highest rate tried"
    if not last.reached:
        return f"{text}; at {rate(last.rate_bps)} the sender could not send all packets"
    lost = "" if last.loss is None else f" {last.loss * 100:.3g} % were lost"
    return f"{text}; at {rate(last.rate_bps)}{lost}"


def read_losses(url: str, lab: LabOfFile, today: date) -> list[MetricLevel]:
    """Return the levels with a loss of all metrics of a lab, open losses first. Raises ConfigError."""
    with open_history(url, reviewed=load_reviewed(lab)) as history:
        return lost(level_of(found, today) for _, found in history.trends(LONG_LENGTH, lab.name))


def lost(levels: Iterable[MetricLevel]) -> list[MetricLevel]:
    """Return the levels with a loss: open losses first, then by size."""
    found = [(level.loss, level) for level in levels if level.loss is not None]
    found.sort(key=lambda one: (not one[0].is_open, -abs(one[0].relative), one[0].lab, one[0].figure))
    return [level for _, level in found]


def losses_sentence(levels: Iterable[MetricLevel]) -> str:
    """Return how many losses are open and how many are acknowledged; empty if there is no loss."""
    losses = [level.loss for level in levels if level.loss is not None]
    opened = sum(loss.is_open for loss in losses)
    known = len(losses) - opened
    parts = [f"{count(opened, 'loss is', 'losses are')} open"] if opened else []
    parts += [f"{count(known, 'loss is', 'losses are')} acknowledged"] if known else []
    return ", ".join(parts)


def size_text(loss: Loss, today: date) -> str:
    """Return the size, the begin and the age of a loss."""
    return f"{percent(loss.relative)} since {loss.since:%Y-%m-%d} ({count(loss.days(today), 'day')})"


def owner_text(loss: Loss) -> str:
    """Return whether a user must act, and who owns the loss."""
    known = loss.acknowledgement
    if known is None:
        return "open, no owner"
    if loss.state is LossState.EXPIRED:
        return f"open, owner {known.owner}, acknowledged until {known.until} (expired)"
    return f"acknowledged until {known.until}, owner {known.owner}"


def cause_text(loss: Loss) -> str:
    """Return the levels before and now, and what differs between the builds."""
    moved = " -> ".join(value_texts(loss.kind, loss.before, loss.now))
    change = loss.change
    if change is None:
        return f"{moved}, since before the runs of this history"
    if change.gradual:
        return f"{moved}, a drift: no single build is the cause"
    return f"{moved}, with {'; '.join(change.differs)}" if change.differs else f"{moved}, with the same build"


def changes_text(level: MetricLevel) -> str:
    """Return the changes since the baseline and since the best month; empty if neither is known.

    While the level is that of the best month, there is no change to name.
    """
    parts = []
    if level.since_baseline is not None:
        parts.append(f"{percent(level.since_baseline)} since the baseline")
    best = percent(level.since_best_month or 0.0)
    if level.best_month is not None and best != percent(0.0):
        parts.append(f"{best} since the best month ({level.best_month.month})")
    return ", ".join(parts)


def loss_lines(levels: Sequence[MetricLevel], today: date) -> list[str]:
    """Return each loss in lines of text, open losses first."""
    lines = []
    for level in lost(levels):
        loss = level.loss
        assert loss is not None, "only levels with a loss"
        lines += [f"{loss.figure}  {size_text(loss, today)}", *wrap(owner_text(loss), "  ", "    ")]
        # A URL is never split.
        lines += [f"  {loss.acknowledgement.link}"] if loss.acknowledgement is not None else []
        for text in (cause_text(loss), changes_text(level)):
            lines += wrap(text, "  ", "    ")
    return lines


def short_lines(levels: Sequence[MetricLevel], today: date) -> list[str]:
    """Return a line for all losses, then a line for each, open losses first; empty if there is no loss."""
    found = lost(levels)
    if not found:
        return []
    lines = [losses_sentence(found)]
    for level in found:
        assert level.loss is not None, "only levels with a loss"
        loss, known = level.loss, level.loss.acknowledgement
        owner = owner_text(loss) if known is None else f"{owner_text(loss)}, {known.link}"
        what = (size_text(loss, today), owner, cause_text(loss), changes_text(level))
        lines.append(f"{loss.figure}: {'; '.join(filter(None, what))}")
    return lines


def loss_record(level: MetricLevel, today: date) -> dict[str, object]:
    """Return a level with a loss as plain data: levels in their unit, changes as fractions, times in ISO 8601."""
    loss = level.loss
    assert loss is not None, "only levels with a loss"
    change, known = loss.change, loss.acknowledgement
    return {
        "figure": loss.figure,
        "lab": loss.lab,
        "state": loss.state.value,
        "open": loss.is_open,
        "since": loss.since.isoformat(),
        "days": loss.days(today),
        "run": loss.run,
        "unit": loss.kind.unit,
        "before": loss.before,
        "now": loss.now,
        "change": loss.relative,
        "since_baseline": level.since_baseline,
        "since_best_month": level.since_best_month,
        "best_month": level.best_month.month if level.best_month is not None else None,
        "gradual": change is not None and change.gradual,
        "differs": list(change.differs) if change is not None else [],
        "owner": known.owner if known is not None else None,
        "until": known.until.isoformat() if known is not None else None,
        "link": known.link if known is not None else None,
    }


def percent(part: float) -> str:
    """Return a change in percent with one decimal; no sign at zero."""
    rounded = round(part * 100, 1)
    return f"{rounded:+.1f} %" if rounded else "0.0 %"


_HEADER = ("metric", "A", "B", "change", "B is")
# In capitals, so that they are visible without colours.
_LOUD = ("slower", "inconclusive", MISSING)
# More differences are in the output of --json.
MOST_DIFFERENCES = 12
_EXPLAINED = ("slower", "inconclusive", NOT_COMPARABLE)


def comparison_table(a: RunSet, b: RunSet, found: Sequence[Compared]) -> list[str]:
    """Return the table, worst row first, below a description of A and B."""
    lines = wrap_each((_what("A", a), _what("B", b)), hanging="   ")
    if not found:
        return [*lines, "", "no metric to compare"]
    words = [one.word.upper() if one.word in _LOUD else one.word for one in found]
    sides = [side_cells(one.a, one.b, one.change, kind=one.kind) for one in found]
    cells = [_HEADER, *((one.figure, *side, word) for one, side, word in zip(found, sides, words, strict=True))]
    explained = [one.why if one.word in _EXPLAINED else "" for one in found]
    notes = [wrap(why, indent="    ") if why else [] for why in explained]
    differing = list(dict.fromkeys(f"differs: {text}" for one in found for text in one.differs))[:MOST_DIFFERENCES]
    lines += [*wrap_each(differing, hanging="   "), "", *text_table(cells, SIDES, WIDTH, notes=notes)]
    counts = Counter(one.word for one in found)
    said = ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])
    return [*lines, "", f"{count(len(found), 'metric')}: {said}"]


def comparison_records(found: Sequence[Compared]) -> list[dict[str, object]]:
    """Return the rows as plain data. Changes are fractions; None where a side has no value."""
    names = ("figure", "a", "b", "change", "verdict", "skipped", "why", "differs")
    return [{name: getattr(one, name) for name in names} | {"unit": one.kind.unit} for one in found]


def _what(name: str, side: RunSet) -> str:
    runs = len({point.run for point in side.points})
    builds = side.builds
    of = f" of {', '.join(builds[:3])}{', ...' if len(builds) > 3 else ''}" if builds else ""
    emulated = ", emulated" if any(point.emulated for point in side.points) else ""
    return f"{name}: {side.name} ({count(runs, 'run')}{of}{emulated})"
