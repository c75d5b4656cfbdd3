"""The templates of the page, and the words, ids and marks that its sections share.

All values are escaped, unless they are made as HTML here. Characters that are not printable are shown as escapes:
controls, marks that turn the direction of text, line ends.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pytest_pinet.history.losses import Loss
from pytest_pinet.history.points import Point
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.verdict import GOOD, SEVERITY, Verdict
from pytest_pinet.report.charts.paper import Paper
from pytest_pinet.report.sentences import cause_text, owner_text, percent, size_text
from pytest_pinet.report.text_wrap import copyable, count, rate, tied
from pytest_pinet.report.trends import FigureSeries

_MEANS = {
    Verdict.FAIL: ("misses its limit", "miss their limits"),
    Verdict.ERROR: ("ended without a value", "ended without a value"),
    Verdict.INVALID: ("has no valid measurement", "have no valid measurement"),
    Verdict.INCONCLUSIVE: ("is undecided", "are undecided"),
}
_HERE = Path(__file__).parent


def anchor(text: str) -> str:
    """Return an HTML id for any text: unique, and the same in every report."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', text).strip('-')}-{digest}"


def kind(verdict: Verdict) -> str:
    """Return the CSS class for a verdict."""
    return "good" if verdict in GOOD or verdict is Verdict.SKIPPED else "bad"


def open_loss(series: FigureSeries) -> Loss | None:
    """Return the loss on which a user must act; None if there is none."""
    loss = series.level.loss
    return loss if loss is not None and loss.is_open else None


def badge(loss: Loss) -> str:
    """Return a loss in few words: how much moved, or who knows of it until when."""
    known = loss.acknowledgement
    if loss.is_open or known is None:
        return f"moved {percent(loss.relative)}"
    return f"known, {known.owner}, until {known.until}"


def look(series: FigureSeries) -> str:
    """Return the CSS class for a metric: ``bad`` if its newest verdict or an open loss needs attention."""
    return "bad" if open_loss(series) is not None else kind(series.latest.verdict)


def loss_sentence(loss: Loss, today: date) -> str:
    """Return what was lost, since when, with which build, and for an open loss its owner."""
    owner = f"; {owner_text(loss)}" if loss.is_open else ""
    return f"{size_text(loss, today)}: {cause_text(loss)}{owner}"


def marks() -> Markup:
    """Return the mark of each verdict as SVG around its middle, which the page draws by name wherever it is needed."""
    shapes = []
    for verdict in Verdict:
        paper = Paper(0, 0, "")
        paper.mark(0, 0, verdict, size=4.5)
        shapes.append(f'<g id="m-{verdict.value}">{paper.shapes}</g>')
    return Markup("".join(shapes))


def share_text(dot: Point) -> str:
    """Return the share of the physical limit; empty if unknown."""
    return "" if dot.share is None else f"{dot.share * 100:.1f} %"


def current(all_series: Sequence[FigureSeries]) -> list[FigureSeries]:
    """Return the series for the grid and the counts: all but the series that are only history.

    A series is history if none of its runs has a value and its combination (board, NIC, topology) has a newer run.
    """
    newest: dict[tuple[str, CombinationId], Point] = {}
    for series in all_series:
        key = (series.lab, series.combination)
        newest[key] = max(newest.get(key, series.latest), series.latest, key=lambda dot: dot.time)
    return [
        series
        for series in all_series
        if series.measured or series.latest.run == newest[series.lab, series.combination].run
    ]


def lead(all_series: Sequence[FigureSeries]) -> str:
    """Return the state of all series in one sentence, bad verdicts first."""
    counts = Counter(series.latest.verdict for series in all_series)
    total = counts.total()
    parts = [
        f"{counts[verdict]} {_MEANS[verdict][counts[verdict] > 1]}"
        for verdict in SEVERITY
        if verdict in _MEANS and counts[verdict]
    ]
    lost = [abs(loss.relative) * 100 for series in all_series if (loss := open_loss(series)) is not None]
    known = sum(series.level.loss is not None for series in all_series) - len(lost)
    if lost:
        some = f"{max(lost):.1f} %" if len(lost) == 1 else f"{min(lost):.1f} to {max(lost):.1f} %"
        parts.append(f"{len(lost)} {'has' if len(lost) == 1 else 'have'} an open loss of {some}")
    if not total:
        return "Nothing was measured yet."
    more = f"; {count(known, 'loss is', 'losses are')} acknowledged" if known else ""
    if total == 1:
        return f"The only metric {' and '.join(part[2:] for part in parts) if parts else 'meets its limit'}{more}."
    if not parts:
        return f"All {total} metrics meet their limits, and none has an open loss{more}."
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    both = sum(series.latest.verdict in _MEANS and open_loss(series) is not None for series in all_series)
    twice = f"; {count(both, 'metric is', 'metrics are')} counted in both" if both else ""
    return f"Of {total} metrics, {listed}{twice}{more}."


def metric_name(series: FigureSeries) -> str:
    """Return the name of a metric within its combination."""
    return " ".join(filter(None, (series.traffic, series.direction))) or "runs without a result"


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    found = Environment(
        autoescape=True,
        loader=FileSystemLoader(_HERE / "templates"),
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else tied(copyable(str(value))),
    )
    found.filters.update(kind=kind, anchor=anchor, badge=badge, owner=owner_text, rate=rate)
    return found


def render(template: str, **values: object) -> Markup:
    """Return a template with these values."""
    return Markup(environment().get_template(template).render(values))


def own_file(name: str) -> Markup:
    """Return a style sheet or script of this package, which becomes part of the page as it is."""
    return Markup((_HERE / name).read_text(encoding="utf-8"))


def hash_of(script: str) -> str:
    """Return the hash by which the page's policy allows this script, and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
