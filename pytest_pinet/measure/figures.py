"""Measure, judge and record values beside goodput: one of each kind from every fresh connection."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pytest_pinet.execution.trace import doing
from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.figures import FigureRuling, judge_figure, strictly
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import fitted
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.link_result import link_result, read_ends
from pytest_pinet.model.figures import Figure, Sample
from pytest_pinet.model.judgement import FigureJudgement, MeasurementJudgement
from pytest_pinet.model.limits import METRICS
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import USUAL_PATH, Direction, PathSetup, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.sentences import figures_text, folded, tuning_notes
from pytest_pinet.traffic.tool import Watch

# How long one measurement of most values lasts.
USUAL_S = 5


@dataclass(frozen=True)
class Probe(ABC):
    """What is measured: a frozen dataclass for each metric, in a file of its own. ``setup`` is that of the path."""

    setup: PathSetup = field(default=USUAL_PATH, kw_only=True)

    @property
    @abstractmethod
    def name(self) -> str:
        """What is measured, with its tool and its parameters: values of two tools are never compared."""

    @property
    @abstractmethod
    def figures(self) -> tuple[Figure, ...]:
        """The kinds of values."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """How long one measurement lasts, about."""

    @abstractmethod
    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Measure once, on a fresh connection. ``watch`` is called throughout and can end it by raising.

        Raises LabError, CapabilityError.
        """

    @property
    def key(self) -> str:
        """The part of an id; stable across runs."""
        return f"{self.name}{self.setup.key}"

    def judge(
        self, samples: Sequence[Sample], key: MetricKey, plan: GatePlan, known: Mapping[str, Reference]
    ) -> dict[str, FigureRuling]:
        """Judge each value after these samples, by its limit or by what is known of it."""
        return {one.name: judge_figure(one, samples, self.seconds, key, plan, known[one.name]) for one in self.figures}

    def notes(self, samples: Sequence[Sample]) -> list[str]:
        """Return what is to be known of the samples, and which of them do not count."""
        excluded = [
            f"connection {n} does not count: {one.excluded}" for n, one in enumerate(samples, 1) if one.excluded
        ]
        return folded([*excluded, *(note for one in samples for note in one.notes)])


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
    tool. Raises LabError, CapabilityError.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    unread: list[str] = []
    ends = read_ends(link, unread.append)
    plan = replace(plan, profile=fitted(plan.profile, math.ceil(probe.seconds)))
    # A value is calibrated, accepted and gated under this id and its own name.
    whole = f"{link.combination.identity}/{probe.key}"
    known = {
        one.name: references(f"{whole}-{one.name}", one) if one.name in METRICS else Reference()
        for one in probe.figures
    }
    samples: list[Sample] = []
    found: dict[str, FigureRuling] = {}
    while not found or any(one.wanted for one in found.values()):
        with doing(f"{probe.key} #{len(samples) + 1}"):
            samples.append(probe.once(link, watch))
        raw[f"{len(samples)}-{probe.key}.txt"] = samples[-1].raw
        found = probe.judge(samples, limits_key(link), plan, known)
    figures = {name: strictly(one.judgement) if plan.strict else one.judgement for name, one in found.items()}
    return figures_record(
        link,
        probe,
        samples,
        figures,
        **ends,
        notes=[*probe.notes(samples), *tuning_notes(link.tunings), *unread],
        profile=plan.profile.name,
        started=started.isoformat(),
        seconds=time.monotonic() - clock,
        traffic_seconds=len(samples) * probe.seconds,
    )


def limits_key(link: Link) -> MetricKey:
    """Return the key by which a limit on a value is chosen."""
    return MetricKey(link.combination.identity, Traffic(Direction.TX), Direction.TX)


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
