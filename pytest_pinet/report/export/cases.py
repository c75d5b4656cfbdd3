"""The metrics of a run with their verdicts, and names of them that every reader accepts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import unknown
from pytest_pinet.history.gates import instructions_of, metric_id
from pytest_pinet.history.records import reason_of
from pytest_pinet.model.metric_key import within
from pytest_pinet.model.record.change import ChangeEntryRecord
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import GOOD, Verdict
from pytest_pinet.report.exact_text import rate_text, window_of
from pytest_pinet.report.text_wrap import first_paragraph, rate

# KCIDB, NIPA, LAVA and GitLab accept these characters between the dots of a path.
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
# The name of a result without a metric: an error before or during the measurement.
NO_METRIC = "measurement"
# The name of how evenly several flows shared a link.
EVENNESS = "evenness"


@dataclass(frozen=True)
class Case:
    """One verdict. ``group`` names its combination and ``label`` its metric, in plain characters.

    If runs of several labs were merged, ``group`` begins with the lab. ``figure`` is the id of the metric. ``text`` is
    the reason of the verdict on one line; empty without a reason.
    ``direction`` has the values; None for a verdict without goodput.
    """

    group: str
    label: str
    figure: str
    verdict: Verdict
    text: str
    result: ResultRecord
    direction: DirectionRecord | None = None

    @property
    def name(self) -> str:
        """The whole name: ``pi4b.onboard.pair.tcp-P1-tx``."""
        return f"{self.group}.{self.label}"

    @property
    def value_text(self) -> str:
        """Goodput and limit as part of a sentence, of exact boards instructions and rate; empty without a value."""
        if self.direction is None:
            return ""
        exact, limit = self.result.exact, self.direction.limit_bps
        if exact is None:
            return f"goodput {rate(self.direction.goodput_bps)}{f', limit {rate(limit)}' if limit is not None else ''}"
        counted = instructions_of(exact)
        sums = "" if counted is None else f"{counted[0]:.2f} -> {counted[1]:.2f} instructions per {exact.unit}, "
        return f"{sums}{rate_text(window_of(self.result.id), exact, exact.b)} in virtual time"

    @property
    def goodput_gbit(self) -> float | None:
        """The goodput in Gbit/s; None without goodput, which exact boards do not have."""
        return None if self.direction is None or self.result.exact is not None else self.direction.goodput_bps / 1e9

    @property
    def instructions(self) -> float | None:
        """The instructions of build B for each packet of an exact board; None if none were counted."""
        return None if self.result.exact is None else self.result.exact.b.instructions


def plain_name(figure: str) -> str:
    """Return the id of a combination or metric with dots between its parts and no other special character.

    ``pi4b:onboard/incast:2/rps=all/tcp-P1-tx`` becomes ``pi4b.onboard.incast-2.rps-all.tcp-P1-tx``.
    """
    board, _, rest = figure.partition(":")
    return ".".join(_part(part) for part in (board, *rest.split("/")) if part)


def _part(text: str) -> str:
    return _OTHER.sub("-", text).strip("-") or "-"


def cases_of(run: RunRecord) -> list[Case]:
    """Return all verdicts of a run in their order. A repeated metric is numbered: ``tcp-P1-tx-2``."""
    entries: dict[tuple[str | None, str, str], ChangeEntryRecord] = {}
    for entry in run.change.entries if run.change is not None else ():
        entries.setdefault((*entry.result_key, entry.direction), entry)
    found = [_answered(case, entries) for result in run.results for case in _of_result(result)]
    seen: Counter[str] = Counter()
    numbered = []
    for case in found:
        seen[case.name] += 1
        count = seen[case.name]
        numbered.append(case if count == 1 else replace(case, label=f"{case.label}-{count}"))
    return numbered


def _of_result(result: ResultRecord) -> Iterator[Case]:
    combination = plain_name(result.combination.id)
    group = combination if result.lab is None else f"{_part(result.lab)}.{combination}"

    def label(figure: str) -> str:
        return ".".join(_part(part) for part in within(figure, result.combination.id).split("/") if part) or NO_METRIC

    for way, direction in result.directions.items():
        figure = metric_id(result.id, way)
        yield Case(group, label(figure), figure, direction.verdict, _line(reason_of(direction)), result, direction)
    if result.evenness is not None:
        even, figure = result.evenness, f"{result.id}-{EVENNESS}"
        yield Case(group, label(figure), figure, even.verdict, _line(even.reason), result)
    if not result.directions:
        figure = result.id if result.has_no_rate else result.combination.id
        yield Case(group, label(figure), figure, result.verdict, _line(first_paragraph(result.message)), result)


def _answered(case: Case, entries: Mapping[tuple[str | None, str, str], ChangeEntryRecord]) -> Case:
    """Return the case with its verdict in a gate of a build, which can be stricter than its limit."""
    if case.result.died:
        return case
    way = next((way for way, one in case.result.directions.items() if one is case.direction), "")
    entry = entries.get((*case.result.key, way)) if case.direction is not None or not case.result.directions else None
    if entry is None:
        return case
    # An undecided metric keeps its own reason, such as an invalid measurement.
    undecided = entry.verdict is Verdict.INCONCLUSIVE and case.verdict is Verdict.INVALID
    verdict = case.verdict if undecided else entry.verdict
    return replace(case, verdict=verdict, text=_line(": ".join(filter(None, [entry.finding, entry.text]))))


def _line(text: str) -> str:
    return " ".join(text.split())


def by_group(cases: list[Case]) -> dict[str, list[Case]]:
    """Return the cases of each combination, in the order of their first case."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(case.group, []).append(case)
    return found


def result_word(verdict: Verdict, undecided: str) -> str:
    """Return ``pass``, ``fail`` or ``skip``, or ``undecided`` for a verdict that decides nothing."""
    if verdict in GOOD:
        return "pass"
    return {Verdict.FAIL: "fail", Verdict.SKIPPED: "skip"}.get(verdict, undecided)


def settings_of(form: str, given: Mapping[str, str], *known: str) -> dict[str, str]:
    """Return the settings of an exporter, empty where none was given. Raises ConfigError for an unknown name."""
    for name in given:
        if name not in known:
            raise ConfigError(f"--set: {unknown(f'setting of {form}', name, known)}")
    return {name: given.get(name, "").strip() for name in known}


def required(form: str, settings: Mapping[str, str], name: str, form_of_value: str) -> str:
    """Return a setting that a format cannot do without. Raises ConfigError."""
    if not settings[name]:
        raise ConfigError(f"{form} needs {name}; pass --set {name}={form_of_value}")
    return settings[name]
