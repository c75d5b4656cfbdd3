"""The values behind the charts as JSON, for the script of the page; and the links to files of runs and to commits."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from pytest_pinet.execution.files import exists, is_file
from pytest_pinet.history.points import GOODPUT, INTERVAL, LIMIT, REASON, VERDICT
from pytest_pinet.history.trends import COUNTED
from pytest_pinet.model.verdict import GOOD, SEVERITY
from pytest_pinet.report.page.panels import CombinationChart, changes
from pytest_pinet.report.text_wrap import copyable, first_paragraph
from pytest_pinet.report.trends import FigureSeries

# ``-g1a2b3c4d5e6f`` or ``+g1a2b3c4``, as scripts/setlocalversion and git describe write it.
_COMMIT = re.compile(r"(?:^|[-+.])g([0-9a-f]{7,40})(?![0-9a-z])")
_EPOCH, _MINUTE = datetime(1970, 1, 1, tzinfo=UTC), timedelta(minutes=1)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_VERDICTS = {verdict: str(number) for number, verdict in enumerate(SEVERITY)}


@dataclass
class PageLinks:
    """``base`` is the folder of the page (None: the page has no links to files), ``commits`` the URL of a commit.

    ``commits`` has ``{commit}`` in the place of its hash.
    """

    base: Path | None = None
    commits: str = ""
    _known: dict[str, str] = field(default_factory=dict)

    def folder(self, folder: str) -> str:
        """Return the address of a run folder; empty if it is not on this machine (any more)."""
        if folder not in self._known:
            there = bool(folder) and self.base is not None and is_file(Path(folder, "results.json"))
            self._known[folder] = quote(os.path.relpath(folder, self.base)) if there else ""
        return self._known[folder]

    def file(self, folder: str, name: str) -> str:
        """Return the address of a file of a run folder; empty if it is not on this machine (any more)."""
        here = self.folder(folder)
        return f"{here}/{quote(name)}" if here and exists(Path(folder, name)) else ""

    def commit(self, build: Mapping[str, str | None]) -> tuple[str, str]:
        """Return the commit of a build and its address; empty if one of them is not known."""
        found = build.get("commit") or next((m[1] for m in map(_COMMIT.search, filter(None, build.values())) if m), "")
        return (found, self.commits.replace("{commit}", found)) if found and self.commits else ("", "")


class PageData:
    """Collects the values of all combinations. Texts that repeat (builds, folders) are numbered."""

    def __init__(self, links: PageLinks) -> None:
        self._links = links
        self._texts: dict[str, int] = {}
        self._runs: dict[tuple[str, int], int] = {}
        self._run_list: list[list[int | str]] = []
        self._combinations: list[dict[str, object]] = []

    def add(self, key: str, chart: CombinationChart, all_series: Sequence[FigureSeries]) -> None:
        """Add a combination. ``key`` is the HTML id of its section."""
        runs = [self._run(one.run, (one.time - _EPOCH) // _MINUTE, one.folder) for one in chart.runs]
        builds = [[number, self._text(build)] for number, build in chart.builds]
        metrics = [self._metric(chart, series) for series in all_series]
        self._combinations.append({"key": key, "runs": runs, "builds": builds, "metrics": metrics})

    def markup(self) -> Markup:
        """Return all values as JSON that HTML cannot misread."""
        data = {
            "verdicts": [verdict.value for verdict in _VERDICTS], "texts": list(self._texts), "runs": self._run_list,
            "combinations": self._combinations, "counted": "".join(_VERDICTS[one] for one in COUNTED),
        }  # fmt: skip
        return Markup(_ENCODER.encode(data).replace("<", "\\u003c"))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(copyable(text), len(self._texts))

    def _run(self, name: str, minutes: int, folder: str) -> int:
        key = (name, minutes)
        if key not in self._runs:
            self._runs[key] = len(self._run_list)
            self._run_list.append([copyable(name), minutes, self._text(self._links.folder(folder))])
        return self._runs[key]

    def _metric(self, chart: CombinationChart, series: FigureSeries) -> dict[str, object]:
        """Return one metric, a list for each property. Rates are kbit/s; the interval is below and above the value."""
        places = chart.places(series)
        values, verdicts = series.dots.column(GOODPUT), series.dots.column(VERDICT)
        ranges = [(bps or 0.0, own) for bps, own in zip(values, series.dots.column(INTERVAL), strict=True)]
        limits = changes(series.dots.column(LIMIT))
        return {
            "name": copyable(series.figure),
            "at": places if places != list(range(len(chart.runs))) else 0,
            "value": [None if bps is None else _kilo(bps) for bps in values],
            "below": [0 if own is None else _kilo(bps - own[0]) for bps, own in ranges],
            "above": [0 if own is None else _kilo(own[1] - bps) for bps, own in ranges],
            "limit": [[number, None if bps is None else _kilo(bps)] for number, bps in limits],
            "verdict": "".join([_VERDICTS[verdict] for verdict in verdicts]),
            "why": {
                number: copyable(first_paragraph(reason))
                for number, (reason, verdict) in enumerate(zip(series.dots.column(REASON), verdicts, strict=True))
                if reason and verdict not in GOOD
            },
        }  # fmt: skip


def _kilo(bps: float) -> float:
    """Return a rate in kbit/s with the digits that readers see, because a page has hundreds of thousands."""
    return round(bps / 1e3) if abs(bps) >= 1e6 else round(bps / 1e3, 3)
