"""Sentences on losses of goodput that did not recover, which the page, Allure, Markdown and the terminal share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from pytest_pinet.config.baselines import load_reviewed
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.history.history import open_history
from pytest_pinet.history.losses import Loss, LossState, MetricLevel, level_of
from pytest_pinet.history.points import LONG_LENGTH
from pytest_pinet.report.text_wrap import count, rates, wrap


def read_losses(url: str, lab: LabOfFile, today: date) -> list[MetricLevel]:
    """Return the levels with a loss of all metrics of a lab, open losses first. Raises ConfigError."""
    with open_history(url, reviewed=load_reviewed(lab)) as history:
        return lost(level_of(found, today) for _, found in history.trends(LONG_LENGTH, lab.name))


def lost(levels: Iterable[MetricLevel]) -> list[MetricLevel]:
    """Return the levels with a loss: open losses first, then by size."""
    found = [(level.loss, level) for level in levels if level.loss is not None]
    found.sort(key=lambda one: (not one[0].is_open, one[0].relative, one[0].lab, one[0].figure))
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
    moved = " -> ".join(rates(loss.before_bps, loss.now_bps))
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
    """Return a level with a loss as plain data: rates in bit/s, changes as fractions, times in ISO 8601."""
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
        "before_bps": loss.before_bps,
        "now_bps": loss.now_bps,
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
