"""The file of `pinet calibrate`: the noise of each metric, and the tolerance that follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from pytest_pinet.config.entries import Build, Date, Id, read_entries, share_text, write_entries
from pytest_pinet.config.fields import PERCENT, Count
from pytest_pinet.config.lab_of_file import LabOfFile
from pytest_pinet.config.schema import Section
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import shown
from pytest_pinet.judge.noise import UNKNOWN, Noise
from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import Share, Tolerance

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


class NoiseSection(Section):
    """Relative standard deviations; null: not measured."""

    connections: Deviation
    links: Deviation | None = None
    boots: Deviation | None = None
    runs: Count
    link_ups: Count = 1


class CalibrationSection(Section):
    """One entry of the file."""

    id: Id
    noise: NoiseSection
    tolerance: Part
    repeats: Count
    margin: Part
    date: Date
    build: Build


class CalibrationFile(Section):
    """The whole file."""

    calibration: list[CalibrationSection]


@dataclass(frozen=True)
class Calibration:
    """The calibration of one metric.

    ``connections``, ``links`` and ``boots`` are the relative standard deviations that fresh connections, link-ups and
    boots each add (None: not measured), from ``runs`` (at least 2) on ``link_ups``. ``tolerance`` below a baseline and
    ``repeats`` (connections) are proposals. ``margin`` is the least margin that this noise allows.
    """

    id: str
    connections: Share
    links: Share | None
    boots: Share | None
    runs: int
    tolerance: Share
    repeats: int
    margin: Share
    date: date
    build: Mapping[str, str | None]
    where: Where = field(compare=False, default=Where("calibration"))
    link_ups: int = 1

    @property
    def noise(self) -> Noise:
        """The noise for the sequential judge. Noise that was not measured between sessions has the default value."""
        links = 0.0 if self.links is None else self.links.fraction
        boots = 0.0 if self.boots is None else self.boots.fraction
        sessions = math.hypot(links, boots)
        if self.links is None or self.boots is None:
            sessions = max(sessions, UNKNOWN.sessions)
        source = f"calibration of {self.date}, {self.runs} runs ({self.where})"
        return Noise(
            self.connections.fraction,
            self.runs - self.link_ups,
            sessions,
            source,
            links=links,
            # One link-up says nothing about the next. The assumed value then counts as known as well as the rest.
            session_freedom=self.link_ups - 1 if self.link_ups > 1 else None,
        )

    @property
    def limit(self) -> Limit:
        """The tolerance as the least specific limit.

        It comes first, so that every other limit on tolerance overrides it.
        """
        return Limit(Tolerance(self.tolerance), Origin.LAB_FILE, str(self.where), metric=Metric.TOLERANCE)


def load_calibration(lab: LabOfFile) -> Mapping[str, Calibration]:
    """Return the lab's calibrations by metric ID; none if the lab was never calibrated. Raises ConfigError."""
    return read_calibration(lab.calibration) if lab.calibration.exists() else {}


def read_calibration(path: Path) -> Mapping[str, Calibration]:
    """Read one file. Raises ConfigError."""
    file, document = read_entries(path, WHAT, CalibrationFile)
    found: dict[str, Calibration] = {}
    for index, own in enumerate(file.calibration):
        at = ("calibration", index)
        where = document.key((*at, "id"))
        if own.id in found:
            raise ConfigError(f"'{own.id}' is a duplicate; the first one is in {found[own.id].where}", where)
        if own.noise.runs < 2:
            message = f"{own.noise.runs} run gives no noise; expected at least 2 runs"
            raise ConfigError(message, document.value((*at, "noise", "runs")))
        if own.noise.link_ups >= own.noise.runs:
            message = f"{own.noise.runs} runs on {own.noise.link_ups} link-ups; at least one link-up needs two runs"
            raise ConfigError(message, document.value((*at, "noise", "runs")))
        noise = own.noise
        found[own.id] = Calibration(
            own.id,
            noise.connections,
            noise.links,
            noise.boots,
            noise.runs,
            own.tolerance,
            own.repeats,
            own.margin,
            own.date,
            own.build,
            where,
            noise.link_ups,
        )
    return found


def write_calibration(path: Path, calibrations: Iterable[Calibration]) -> None:
    """Write these calibrations, and keep the file's other IDs. Raises ConfigError, also for a file that is broken."""
    entries = dict(read_calibration(path)) if path.exists() else {}
    entries.update((own.id, own) for own in calibrations)
    write_entries(path, "calibration", [_entry(entries[name]) for name in sorted(entries)], HEADER)


def _entry(own: Calibration) -> dict[str, object]:
    return {
        "id": own.id,
        "noise": {
            "connections": share_text(own.connections),
            "links": None if own.links is None else share_text(own.links),
            "boots": None if own.boots is None else share_text(own.boots),
            "runs": own.runs,
            "link_ups": own.link_ups,
        },
        "tolerance": share_text(own.tolerance),
        "repeats": own.repeats,
        "margin": share_text(own.margin),
        "date": own.date,
        "build": dict(sorted(own.build.items())),
    }
