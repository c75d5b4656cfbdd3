"""The dashboard: a row for each NIC, a column for each board, and in each cell the newest figures."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.verdict import SEVERITY
from pytest_pinet.report.charts.paper import written
from pytest_pinet.report.charts.scale import rate_text
from pytest_pinet.report.charts.sparkline import sparkline
from pytest_pinet.report.page.words import anchor, kind, share_text, verdict_html
from pytest_pinet.report.series import Series

# What a share is of stands below the grid; a screen reader says it with each.
_OF = '<span class="away"> of the physical limit</span>'


def grid(all_series: Sequence[Series]) -> str:
    """A table; on narrow screens each row becomes a card, and its roles keep it a table for screen readers."""
    boards = sorted({series.board for series in all_series})
    nics = sorted({series.nic for series in all_series})
    cells: dict[tuple[str, str], list[Series]] = {}
    for series in all_series:
        cells.setdefault((series.nic, series.board), []).append(series)
    head = "".join(f'<th role="columnheader" scope="col">{written(board)}</th>' for board in boards)
    rows = []
    for nic in nics:
        columns = "".join(_cell(board, cells.get((nic, board), ())) for board in boards)
        rows.append(f'<tr role="row"><th role="rowheader" scope="row">{written(nic)}</th>{columns}</tr>')
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Figures by board and NIC">'
        '<table class="grid" role="table"><thead role="rowgroup"><tr role="row">'
        f'<th role="columnheader" scope="col">NIC \\ board</th>{head}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(rows)}</tbody></table></div>'
    )


def _cell(board: str, found: Sequence[Series]) -> str:
    if not found:
        return '<td role="cell" class="none">-</td>'
    ordered = sorted(found, key=lambda series: (SEVERITY.index(series.latest.verdict), series.figure))
    return f'<td role="cell" data-board="{written(board)}">{"".join(map(_figure, ordered))}</td>'


def _figure(series: Series) -> str:
    """One figure; all of it is a link to the part that tells more."""
    dot = series.latest
    what = " ".join(filter(None, (series.topology, series.tuning, series.traffic, series.direction)))
    figure = rate_text(dot.goodput_bps) if dot.goodput_bps is not None else "no rate" if series.traffic else "no figure"
    share = share_text(dot)
    return (
        f'<a class="cell {kind(dot.verdict)}" href="#{anchor(series.key)}">'
        f'<span class="what">{written(what)}</span>{verdict_html(dot.verdict)}'
        f'<span class="figure">{figure}</span>'
        f'<span class="share">{share}{_OF if share else ""}</span>'
        f'<span class="spark">{sparkline(series).inline(label=False)}</span></a>'
    )
