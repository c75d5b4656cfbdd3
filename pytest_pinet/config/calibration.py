"""The file of `pinet calibrate`: noise and tolerance of each metric; and what is known of a metric before its gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from pytest_pinet.config.baselines import load_baselines
from pytest_pinet.config.entries import ONLY_KNOWN_KEYS, Build, Date, Id, entries_text, placed, write_entries
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.config.section import Section, read_section
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.files import exists
from pytest_pinet.execution.names import shown
from pytest_pinet.judge.baseline import Baseline, Reference
from pytest_pinet.judge.costs import KINDS
from pytest_pinet.judge.spread import UNKNOWN, Noise
from pytest_pinet.model.fields import NO_KEY, PERCENT, Count
from pytest_pinet.model.figures import Figure
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.metric_key import CombinationId, MetricKey, metric_keys
from pytest_pinet.model.quantities import Share, Tolerance
from pytest_pinet.model.traffic import Direction, Traffic

WHAT = "a calibration (a list under the key 'calibration')"
HEADER = "Written by `pinet calibrate`: the noise of each metric, and the tolerance that follows from it."


def _part(form: str, positive: bool) -> Callable[[object], Share]:
    def read(value: object) -> Share:
        if not isinstance(value, str):
            raise ValueError(f"expected {form}, got {shown(value)}")
        share = Share.parse(value, form)
        if positive and not share.fraction:
            raise ValueError(f"expected {form}, above 0, got {shown(value)}")
        return share

    return read


# A relative standard deviation, which can be 0, and a share, which cannot.
Deviation = Annotated[Share, PlainValidator(_part("a share such as '0.3%'", False)), WithJsonSchema(PERCENT)]
Part = Annotated[Share, PlainValidator(_part("a share such as '3%'", True)), WithJsonSchema(PERCENT)]


@dataclass(frozen=True)
class MeasuredNoise:
    """The relative standard deviations that fresh connections, link-ups and boots each add; None: not measured.

    They are from ``runs`` (at least 2) on ``link_ups``.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    connections: Deviation
    links: Deviation | None = None
    boots: Deviation | None = None
    runs: Count = field(kw_only=True)
    link_ups: Count = 1


@dataclass(frozen=True)
class Calibration:
    """The calibration of one metric: an entry of the file, and where it is written.

    ``tolerance`` below a baseline and ``repeats`` (connections) are proposals. ``margin`` is the least margin that this
    noise allows. ``costs`` has the noise of each cost of the device under test that was counted, by its key.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    id: Id
    noise: MeasuredNoise
    tolerance: Part
    repeats: Count
    margin: Part
    date: Date
    build: Build
    costs: Mapping[str, MeasuredNoise] = field(default_factory=dict)
    where: Annotated[Where, *NO_KEY] = field(compare=False, default=Where("calibration"))

    @property
    def judged_noise(self) -> Noise:
        """The noise of goodput for the sequential judge."""
        return self._judged(self.noise)

    @property
    def judged_costs(self) -> dict[str, Noise]:
        """The noise of each cost, by its key. Without repeated boots, nothing is known of a cost."""
        return {key: self._judged(own) for key, own in self.costs.items() if own.boots is not None}

    def _judged(self, own: MeasuredNoise) -> Noise:
        """If link-ups or boots were not repeated, the noise between sessions is at least the default value."""
        links = 0.0 if own.links is None else own.links.fraction
        boots = 0.0 if own.boots is None else own.boots.fraction
        sessions = math.hypot(links, boots)
        if own.links is None or own.boots is None:
            sessions = max(sessions, UNKNOWN.sessions)
        return Noise(
            own.connections.fraction,
            own.runs - own.link_ups,
            sessions,
            links=links,
            # One link-up says nothing about the next. The assumed value then counts as known as well as the rest.
            session_freedom=own.link_ups - 1 if own.link_ups > 1 else None,
        )

    @property
    def limit(self) -> Limit:
        """The tolerance as the least specific limit. It comes first, so that every other tolerance overrides it."""
        return Limit(Tolerance(self.tolerance), Origin.LAB_FILE, str(self.where), metric=Metric.TOLERANCE)


class CalibrationFile(Section):
    """The whole file."""

    calibration: list[Calibration]


def load_calibration(lab: LabOfFile) -> Mapping[str, Calibration]:
    """Return the lab's calibrations by metric ID; none if the lab was never calibrated. Raises ConfigError."""
    found: dict[str, Calibration] = {}
    for path in (lab.packaged_calibration, lab.calibration):
        found |= read_calibration(path) if path is not None and exists(path) else {}
    return found


def read_calibration(path: Path) -> Mapping[str, Calibration]:
    """Read one file. Raises ConfigError."""
    file, document = read_section(path, WHAT, CalibrationFile)
    found: dict[str, Calibration] = {}
    for at, own, where in placed("calibration", file.calibration, document):
        if own.noise.runs < 2:
            message = f"{own.noise.runs} run is too few to compute the noise; expected at least 2 runs"
            raise ConfigError(message, document.value((*at, "noise", "runs")))
        if own.noise.link_ups >= own.noise.runs:
            message = f"{own.noise.runs} runs on {own.noise.link_ups} link-ups; at least one link-up needs two runs"
            raise ConfigError(message, document.value((*at, "noise", "runs")))
        found[own.id] = replace(own, where=where)
    return found


def write_calibration(path: Path, calibrations: Iterable[Calibration]) -> None:
    """Write these calibrations, and keep the file's other IDs. Raises ConfigError, also for a file that is broken."""
    entries = dict(read_calibration(path)) if exists(path) else {}
    entries.update((own.id, own) for own in calibrations)
    write_entries(path, entries_text("calibration", [entries[name] for name in sorted(entries)], HEADER))


class ReferenceData:
    """Returns reference data by metric key. Without a lab there are none.

    ``gated``: values are compared with their accepted baselines; False for runs that make their own limits. The
    constructor raises ConfigError.
    """

    def __init__(self, lab: LabOfFile | None = None, gated: bool = True) -> None:
        self.baselines = load_baselines(lab) if lab is not None and gated else {}
        self._calibration = load_calibration(lab) if lab is not None else {}

    def of(self, key: MetricKey) -> Reference:
        name = str(key)
        baseline = self.baselines[name].baseline() if name in self.baselines else None
        if name not in self._calibration:
            return Reference(baseline=baseline)
        calibration = self._calibration[name]
        return Reference(calibration.judged_noise, baseline, calibration.limit)

    def of_figure(self, name: str, kind: Figure) -> Reference:
        """Return what is known of a value beside goodput, by its ID."""
        return Reference(baseline=self.baselines[name].baseline(kind) if name in self.baselines else None)

    def of_costs(self, key: MetricKey) -> Mapping[str, Noise]:
        """Return the noise of the costs of this traffic, as far as it was measured, by their keys."""
        names = map(str, metric_keys(key.combination, key.traffic).values())
        known = [self._calibration[name] for name in names if name in self._calibration]
        return known[0].judged_costs if known else {}

    def of_cost_baselines(self, key: MetricKey) -> dict[str, Baseline]:
        """Return the accepted baselines of the costs of this traffic, by their keys."""
        known = {name: self.of_figure(f"{key}-{name}", kind).baseline for name, kind in KINDS.items()}
        return {name: one for name, one in known.items() if one is not None}

    def is_calibrated(self, combinations: Sequence[CombinationId] | None) -> bool:
        """Return whether the noise of all these combinations was measured (None: of any combination)."""
        known = {name.rpartition("/")[0] for name in self._calibration}
        return bool(known) if combinations is None else {str(one) for one in combinations} <= known

    def of_traffic(self, combination: CombinationId, traffic: Traffic) -> dict[Direction, Reference]:
        """Return the data of each direction, also for one-way traffic, because pairs can run in opposite directions."""
        return {way: self.of(MetricKey(combination, traffic, way)) for way in Direction.BIDIR.parts}
