"""Measure events that are good or bad, such as boots and flaps of a link, until the share of bad ones is certain."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from pytest_pinet.execution.trace import doing
from pytest_pinet.judge.shares import Events, ShareRule
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import Probe, figures_record, sample_notes
from pytest_pinet.measure.link_result import read_ends
from pytest_pinet.model.figures import Better, Figure, Sample
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.sentences import tuning_notes
from pytest_pinet.traffic.tool import Watch

# With so many events that do not count, the lab is at fault.
MOST_EXCLUDED = 5
# Decides about the events so far; None requires another one.
Decide = Callable[[Events], Verdict | None]


@dataclass(frozen=True)
class Counted:
    """A probe whose samples are events, and the rule for the share of bad ones.

    ``noun`` is the plural of an event (``boots``). ``why_bad`` returns why a sample is bad, and nothing for a good one.
    ``decide`` replaces the rule, for one of two builds.
    """

    probe: Probe
    noun: str
    rule: ShareRule
    why_bad: Callable[[Sample], str]
    decide: Decide | None = None

    @property
    def key(self) -> str:
        return self.probe.key

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (self.figure, *self.probe.figures)

    @property
    def seconds(self) -> float:
        return self.probe.seconds

    @property
    def figure(self) -> Figure:
        """The share of the bad events."""
        return Figure(f"bad_{self.noun}", "share", Better.DOWN)

    def once(self, link: Link, watch: Watch | None) -> Sample:
        """Make one event happen."""
        return self.probe.once(link, watch)

    def events(self, samples: Sequence[Sample]) -> Events:
        return Events.of(bool(self.why_bad(one)) for one in samples if not one.excluded)


def measure(link: Link, counted: Counted, raw: MutableMapping[str, str], watch: Watch | None = None) -> ResultRecord:
    """Measure events until the share of bad ones is certain. The caller fills in ``test``, ``files`` and ``rerun``.

    ``raw`` receives the output of the tool. Raises LabError, CapabilityError.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    unread: list[str] = []
    ends = read_ends(link, unread.append)
    samples: list[Sample] = []
    verdict: Verdict | None = None
    while verdict is None:
        with doing(f"{counted.key} #{len(samples) + 1}"):
            samples.append(counted.once(link, watch))
        raw[f"{len(samples)}-{counted.key}.txt"] = samples[-1].raw
        verdict = (counted.decide or counted.rule.judge)(counted.events(samples))
        if verdict is None and sum(bool(one.excluded) for one in samples) >= MOST_EXCLUDED:
            verdict = Verdict.INCONCLUSIVE
    return figures_record(
        link,
        counted,
        samples,
        {counted.figure.name: judged(counted, counted.events(samples), verdict), **_values(counted.probe, samples)},
        **ends,
        notes=[*sample_notes(samples), *_bad_notes(counted, samples), *tuning_notes(link.tunings), *unread],
        started=started.isoformat(),
        seconds=time.monotonic() - clock,
        traffic_seconds=time.monotonic() - clock,
    )


def events_of(record: ResultRecord, counted: Counted) -> Events:
    """Return the events of a result."""
    values = record.figures[counted.figure.name].values if record.figures else ()
    return Events(len(values), round(sum(values)))


def judged(counted: Counted, seen: Events, verdict: Verdict, more: str = "") -> FigureJudgement:
    """Return the judgement of the share of bad events. ``more`` is added to its reason."""
    words = seen.words(counted.noun)
    reason = words if verdict is Verdict.PASS else f"{words}: {counted.rule.words}"
    if verdict is Verdict.INCONCLUSIVE:
        reason = f"not certain: {reason}"
    reason = f"{reason}; {more}" if more else reason
    each = (1.0,) * seen.bad + (0.0,) * (seen.count - seen.bad)
    return FigureJudgement("share", "down", seen.share, each, verdict, reason)


def _values(probe: Probe, samples: Sequence[Sample]) -> dict[str, FigureJudgement]:
    """Return the other values of the events, which have no limit."""
    found = {}
    for one in probe.figures:
        values = tuple(s.values[one.name] for s in samples if not s.excluded and one.name in s.values)
        if values:
            found[one.name] = FigureJudgement(
                one.unit, one.better, median(values), values, Verdict.PASS, "no limit was set"
            )
    return found


def _bad_notes(counted: Counted, samples: Sequence[Sample]) -> list[str]:
    return [
        f"{counted.noun.removesuffix('s')} {at} is bad: {why}"
        for at, one in enumerate(samples, 1)
        if not one.excluded and (why := counted.why_bad(one))
    ]
