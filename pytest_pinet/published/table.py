"""Makes the table: every published value, the value of a run, and their difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from pytest_pinet.catalogue.published import ONE_WAY, PublishedFigure
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.published.matching import Result, numbers_of, results_of
from pytest_pinet.report.scale import scale_text
from pytest_pinet.report.table import text_table
from pytest_pinet.report.text_wrap import first_paragraph

WIDTH = 80
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


def rows(figures: Iterable[PublishedFigure], results: Sequence[Result], emulated: bool) -> list[PublishedRow]:
    """Return a row for each published value. ``emulated``: the results are of a virtual lab."""
    return [_row(figure, results, emulated) for figure in figures]


def table(found: Sequence[PublishedRow], emulated: bool) -> list[str]:
    """Return the table in at most WIDTH columns, with notes on single rows below it."""
    notes: dict[str, int] = {}
    cells = [("figure", "published", EMULATED if emulated else "measured", "difference", "verdict")]
    for row in found:
        why = "; ".join(filter(None, (row.why, row.figure.suspect if row.verdict == OFF else "")))
        mark = f" [{notes.setdefault(why, len(notes) + 1)}]" if why else ""
        cells.append(
            (row.figure.id, _published(row.figure), _text(row.found), _percent(row.difference), row.verdict + mark)
        )
    lines = text_table(cells, "<  >  >  >  <")
    lines.insert(1, "-" * max(map(len, lines)))
    for why, number in notes.items():
        lines += wrap(f"[{number}] {why}", WIDTH, subsequent_indent="    ")
    return lines


def summary(found: Sequence[PublishedRow]) -> str:
    """Return the number of each verdict, in one line."""
    counts: dict[str, int] = {}
    for row in found:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    return f"{len(found)} published figures: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def page(found: Sequence[PublishedRow], runs: Sequence[Mapping[str, Any]]) -> str:
    """Return ``docs/published.md`` for one run, or for several of one lab, the latest last."""
    run = runs[-1]
    which = "the run" if len(runs) == 1 else f"{len(runs)} runs, the latest that"
    emulated = run["figures"] == EMULATED
    kind = (
        """\
These figures are emulated: the virtual lab shapes its links by `catalogue/link_models.yaml`. They show that
the suites and the models reproduce what was published, not what a board does."""
        if emulated
        else "These figures were measured on hardware."
    )
    made = f"""\
Made by `pinet published -o docs/published.md` of {which} of {run["started"][:16]} UTC on lab \
{run["lab"]}; not edited."""
    if scaled := scale_text(result for one in runs for result in one.get("results", ())):
        kind += f" {scaled.capitalize()}."
    how = f"""\
A figure is `ok` within {TOLERANCE:.0%} one-way and {TOLERANCE_OF_BOTH:.0%} where both directions run at once.
All are Mbit/s of goodput at the receiver; several numbers are those of several pairs at once, of both directions
(tx, rx), or a range."""
    text = "\n".join(table(found, emulated))
    return f"""# Published figures, tried again

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


def _row(figure: PublishedFigure, results: Sequence[Result], emulated: bool) -> PublishedRow:
    if emulated and figure.not_emulated:
        return PublishedRow(figure, (), None, NOT_EMULATED, figure.not_emulated)
    of_figure = results_of(figure, results)
    if not of_figure:
        return PublishedRow(figure, (), None, NOT_MEASURED)
    result = of_figure[-1]
    if not result["directions"]:
        return PublishedRow(figure, (), None, result["verdict"], _first_sentence(result["message"]))
    found = numbers_of(figure, result)
    if result["verdict"] == Verdict.INVALID:
        return PublishedRow(figure, found, None, result["verdict"], _reason(result))
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


def _requests(figure: PublishedFigure, result: Result) -> str:
    if not figure.requests_per_s:
        return ""
    return f"{result['http']['requests_per_s']:.0f} requests/s, published were {figure.requests_per_s:.0f}"


def _first_sentence(message: str) -> str:
    return first_paragraph(message).partition("; ")[0]


def _reason(result: Result) -> str:
    """Return why the result's values are invalid, without the values."""
    reasons = [one["reason"] for one in result["directions"].values() if one["verdict"] == Verdict.INVALID]
    return _first_sentence(next(iter(reasons), result["message"]).rpartition(" is invalid: ")[2])


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


def _percent(difference: float | None) -> str:
    # Rounded first and added to 0.0, to avoid -0.0.
    return "-" if difference is None else f"{round(difference * 100, 1) + 0.0:+.1f} %"
