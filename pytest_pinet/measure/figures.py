"""Measure, judge and record values beside goodput: one of each kind from every fresh connection."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from pytest_pinet.execution.trace import doing
from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.figures import FigureRuling, judge_figure, strictly
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import fitted
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.link_result import link_result, read_ends
from pytest_pinet.model.figures import Figure, Sample
from pytest_pinet.model.judgement import FigureJudgement, MeasurementJudgement
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, PathSetup, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.sentences import figures_text, tuning_notes
from pytest_pinet.traffic.tool import Watch

__all__ = ("Figure", "Probe", "Sample", "measure")


@runtime_checkable
class Probe(Protocol):
    """What is measured: a frozen dataclass for each metric, in a file of its own.

    ``key`` is the part of the result's id. It is stable across runs and contains the tool: values of two tools are
    never compared. ``seconds`` is about how long one measurement lasts.
    """

    @property
    def key(self) -> str: ...

    @property
    def figures(self) -> tuple[Figure, ...]: ...

    @property
    def seconds(self) -> float: ...

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Measure once, on a fresh connection. ``watch`` is called throughout and can end it by raising LabError."""


@dataclass(frozen=True)
class OnPath:
    """A probe over a path with a setup, such as traffic in the background. The setup is part of the key."""

    probe: Probe
    setup: PathSetup

    @property
    def key(self) -> str:
        return f"{self.probe.key}{self.setup.key}"

    @property
    def figures(self) -> tuple[Figure, ...]:
        return self.probe.figures

    @property
    def seconds(self) -> float:
        return self.probe.seconds

    def once(self, link: Link, watch: Watch | None) -> Sample:
        return self.probe.once(link, watch)


def measure(
    link: Link,
    probe: Probe,
    plan: GatePlan,
    references: Callable[[str, Figure], Reference],
    raw: MutableMapping[str, str],
    watch: Watch | None = None,
) -> ResultRecord:
    """Measure on fresh connections until every value is judged. The caller fills in ``test``, ``files``, ``rerun``.

    ``references`` returns what is known of a value, by its whole ID and its kind. ``raw`` receives the output of the
    tool. Raises LabError.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    unread: list[str] = []
    ends = read_ends(link, unread.append)
    plan = replace(plan, profile=fitted(plan.profile, math.ceil(probe.seconds)))
    key = MetricKey(link.combination.identity, Traffic(Direction.TX), Direction.TX)
    known = {one.name: references(figure_id(link, probe, one.name), one) for one in probe.figures}
    samples: list[Sample] = []
    found: dict[str, FigureRuling] = {}
    while not found or any(one.wanted for one in found.values()):
        with doing(f"{probe.key} #{len(samples) + 1}"):
            samples.append(probe.once(link, watch))
        raw[f"{len(samples)}-{probe.key}.txt"] = samples[-1].raw
        found = {
            one.name: judge_figure(one, samples, probe.seconds, key, plan, known[one.name]) for one in probe.figures
        }
    figures = {name: strictly(one.judgement) if plan.strict else one.judgement for name, one in found.items()}
    return figures_record(
        link,
        probe,
        samples,
        figures,
        **ends,
        notes=[*sample_notes(samples), *tuning_notes(link.tunings), *unread],
        profile=plan.profile.name,
        started=started.isoformat(),
        seconds=time.monotonic() - clock,
        traffic_seconds=len(samples) * probe.seconds,
    )


def figure_id(link: Link, probe: Probe, name: str) -> str:
    """Return the id under which a value is calibrated, accepted and gated."""
    return f"{link.combination.identity}/{probe.key}-{name}"


def figures_record(
    link: Link, probe: Probe, samples: Sequence[Sample], figures: dict[str, FigureJudgement], /, **values: object
) -> ResultRecord:
    """Return the result: the worst verdict of the values, and a sentence about them."""
    verdict, reason = worst_first(figures)
    tool = next((one.tool for one in samples if one.tool), None)
    return link_result(link, probe.key, MeasurementJudgement(verdict, reason), figures=figures, tool=tool, **values)


def worst_first(figures: Mapping[str, FigureJudgement]) -> tuple[Verdict, str]:
    """Return the worst verdict of these values, and a sentence: why, and then the other values."""
    worst = min(figures, key=lambda name: SEVERITY.index(figures[name].verdict))
    verdict = figures[worst].verdict
    others = {name: one for name, one in figures.items() if verdict is Verdict.PASS or name != worst}
    said = [] if verdict is Verdict.PASS else [figures[worst].reason]
    return verdict, "; ".join([*said, *([figures_text(others)] if others else [])])


def sample_notes(samples: Sequence[Sample]) -> list[str]:
    """Return what is to be known of the samples, and which of them do not count."""
    reasons: dict[str, list[str]] = {}
    for at, one in enumerate(samples, 1):
        if one.excluded:
            reasons.setdefault(one.excluded, []).append(str(at))
    excluded = [
        f"connections {', '.join(at)} do not count: {why}" if at[1:] else f"connection {at[0]} does not count: {why}"
        for why, at in reasons.items()
    ]
    return [*excluded, *dict.fromkeys(note for one in samples for note in one.notes if note not in reasons)]
