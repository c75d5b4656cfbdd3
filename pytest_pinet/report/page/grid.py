"""The dashboard: a row per NIC, a column per board, and the newest results in each cell."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.verdict import SEVERITY
from pytest_pinet.report.charts.paper import written
from pytest_pinet.report.charts.scale import rate_text
from pytest_pinet.report.charts.sparkline import sparkline
from pytest_pinet.report.page.words import anchor, kind, share_text, verdict_html
from pytest_pinet.report.series import FigureSeries

# The text below the grid explains the share. A screen reader needs the explanation at each share.
_OF = '<span class="away"> of the physical limit</span>'


def grid(all_series: Sequence[FigureSeries]) -> str:
    """Return a table. On narrow screens each row becomes a card; its roles keep it a table for screen readers."""
    boards = sorted({series.board for series in all_series})
    nics = sorted({series.nic for series in all_series})
    cells: dict[tuple[str, str], list[FigureSeries]] = {}
    for series in all_series:
        cells.setdefault((series.nic, series.board), []).append(series)
    head = "".join(f'<th role="columnheader" scope="col">{written(board)}</th>' for board in boards)
    rows = []
    for nic in nics:
        columns = "".join(_cell(board, cells.get((nic, board), ())) for board in boards)
        rows.append(f'<tr role="row"><th role="rowheader" scope="row">{written(nic)}</th>{columns}</tr>')
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Results by board and NIC">'
        '<table class="grid" role="table"><thead role="rowgroup"><tr role="row">'
        f'<th role="columnheader" scope="col">NIC \\ board</th>{head}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(rows)}</tbody></table></div>'
    )


def _cell(board: str, found: Sequence[FigureSeries]) -> str:
    if not found:
        return '<td role="cell" class="none">-</td>'
    ordered = sorted(found, key=lambda series: (SEVERITY.index(series.latest.verdict), series.figure))
    return f'<td role="cell" data-board="{written(board)}">{"".join(map(_figure, ordered))}</td>'


def _figure(series: FigureSeries) -> str:
    """Return one result of a cell, as a link to its section."""
    dot = series.latest
    what = " ".join(filter(None, (series.topology, series.tuning, series.traffic, series.direction)))
    value = rate_text(dot.goodput_bps) if dot.goodput_bps is not None else "no rate" if series.traffic else "no value"
    share = share_text(dot)
    return (
        f'<a class="cell {kind(dot.verdict)}" href="#{anchor(series.key)}">'
        f'<span class="what">{written(what)}</span>{verdict_html(dot.verdict)}'
        f'<span class="figure">{value}</span>'
        f'<span class="share">{share}{_OF if share else ""}</span>'
        f'<span class="spark">{sparkline(series).inline(label=False)}</span></a>'
    )
