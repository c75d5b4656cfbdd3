"""What users have decided about the metrics of a lab, in files under review: baselines and acknowledged losses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from pytest_pinet.config.entries import ONLY_KNOWN_KEYS, Build, Date, Id, entries_text, placed, write_entries
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.config.section import Section, read_section
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.files import exists, is_folder
from pytest_pinet.execution.names import shown
from pytest_pinet.judge.baseline import Baseline, RunPlace
from pytest_pinet.model.fields import SET_LATER, Count, Text, WholeSeconds
from pytest_pinet.model.figures import GOODPUT, Figure, unit_of_quantity
from pytest_pinet.model.quantities import QUANTITY_FORM, Bitrate, Quantity, amount, parse_quantity, parse_text

# A file beside the baselines, of another kind.
ACKNOWLEDGED = "acknowledged.yaml"
WHAT = "a file of baselines (a list under the key 'baselines')"
HEADER = (
    "Accepted baselines: the accepted value (of goodput: at the receiver), and the value of each run of the baseline.\n"
    "'sessions' says in the order of the runs on which day, boot and link-up they were made, and which connection\n"
    "since the link-up the first of them is, after how much traffic in its boot."
)


def _accepted(value: object) -> Quantity:
    found = parse_quantity(parse_text(value, QUANTITY_FORM))
    if not amount(found):
        raise ValueError(f"a value cannot be compared with a baseline of {found}; expected more than 0")
    return found


Accepted = Annotated[Quantity, PlainValidator(_accepted), WithJsonSchema({"type": "string"})]


@dataclass(frozen=True)
class SessionEntry:
    """The next ``runs`` runs of a baseline: their day, and the numbers of their boot and link-up in this entry.

    ``number`` counts the connections since the link-up, ``after_s`` is the traffic before them in their boot. If
    several connections of one run follow each other, both are of the first one, and ``each_s`` is the traffic of each.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    day: Date
    boot: Count = 1
    link_up: Count = 1
    runs: Count = 1
    number: Count = 1
    after_s: WholeSeconds = 0
    each_s: WholeSeconds = 0

    @property
    def places(self) -> list[RunPlace]:
        """The places of these runs in the form that the judge needs."""
        own = self.day.isoformat(), str(self.boot), str(self.link_up)
        later = range(self.runs) if self.each_s else [0] * self.runs
        return [RunPlace(*own, self.number + at, self.after_s + at * self.each_s) for at in later]


@dataclass(frozen=True)
class AcceptedBaseline:
    """The accepted baseline of one metric: an entry of a file, and where it is written.

    ``id`` is the metric's ID, ``value`` the accepted value. ``runs`` has the values of runs on separate connections,
    link-ups or boots. ``build`` says what was measured (kernel, driver, ...), ``reason`` why it was
    accepted on ``date``. ``sessions`` says when the runs were made.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    id: Id
    value: Accepted
    runs: tuple[Accepted, ...]
    build: Build
    date: Date
    reason: Text
    sessions: tuple[SessionEntry, ...]
    where: Annotated[Where, *SET_LATER] = field(compare=False)

    def baseline(self, kind: Figure = GOODPUT) -> Baseline:
        """Return the baseline in the form that the judge needs: as rates. Raises ConfigError for another unit."""
        if (here := unit_of_quantity(self.value)) != kind.unit:
            raise ConfigError(f"baseline '{self.id}' has the unit {here}; expected {kind.unit}", self.where)
        value, *runs = (Bitrate(kind.rate(amount(one))) for one in (self.value, *self.runs))
        builds = tuple(f"{name} {value}" for name, value in sorted(self.build.items()) if value is not None)
        return Baseline(value, tuple(runs), builds, self.date.isoformat(), self.reason, self.places)

    @property
    def places(self) -> tuple[RunPlace, ...]:
        """The place of each run; empty if it is not known."""
        return tuple(place for session in self.sessions for place in session.places)


class BaselinesFile(Section):
    """A whole file."""

    baselines: list[AcceptedBaseline]


def load_baselines(lab: LabOfFile) -> Mapping[str, AcceptedBaseline]:
    """Return all baselines of the lab's folder by ID; none if the default folder is missing. Raises ConfigError."""
    folder = lab.baselines
    if not is_folder(folder):
        if lab.baselines_where is None and not exists(folder):
            return {}
        message = f"pinet.baselines: the folder '{folder}' does not exist; expected a folder with files of baselines"
        raise ConfigError(message, lab.baselines_where)
    found: dict[str, AcceptedBaseline] = {}
    for path in sorted(entry for entry in folder.iterdir() if entry.suffix in (".yaml", ".yml")):
        if path.name.startswith(".") or path.name == ACKNOWLEDGED:
            continue
        for baseline in read_baselines(path):
            other = found.setdefault(baseline.id, baseline)
            if other is not baseline:
                message = f"baseline '{baseline.id}' is a duplicate; the first one is in {other.where}"
                raise ConfigError(message, baseline.where)
    return found


def read_baselines(path: Path) -> list[AcceptedBaseline]:
    """Return the baselines of one file, in its order. Raises ConfigError."""
    file, document = read_section(path, WHAT, BaselinesFile)
    found = []
    for index, own in enumerate(file.baselines):
        at = ("baselines", index)
        if not own.runs:
            raise ConfigError("a baseline needs at least one run", document.value((*at, "runs")))
        if len({unit_of_quantity(one) for one in (own.value, *own.runs)}) > 1:
            raise ConfigError(f"value {own.value} and its runs have several units", document.value((*at, "runs")))
        low, high = (one(own.runs, key=amount) for one in (min, max))
        if not amount(low) <= amount(own.value) <= amount(high):
            message = f"value {own.value} lies outside its runs, {low} to {high}"
            raise ConfigError(message, document.value((*at, "value")))
        if (known := sum(session.runs for session in own.sessions)) != len(own.runs):
            message = f"the sessions have {known} runs, but the baseline has {len(own.runs)}"
            raise ConfigError(message, document.key((*at, "sessions")))
        found.append(replace(own, where=document.key((*at, "id"))))
    return found


def baselines_text(baselines: Iterable[AcceptedBaseline]) -> str:
    """Return the text of a file with exactly these baselines, sorted by ID."""
    entries = sorted(baselines, key=lambda baseline: baseline.id)
    return entries_text("baselines", entries, HEADER)


def write_baselines(path: Path, baselines: Iterable[AcceptedBaseline]) -> None:
    """Write a file with exactly these baselines, sorted by ID. Raises ConfigError."""
    write_entries(path, baselines_text(baselines))


_WHAT_LOSSES = "a file of acknowledged losses (a list under the key 'acknowledged')"
_HEADER_LOSSES = (
    "Losses that are known: who works on each, the last day on which it counts as known, and where it is tracked.\n"
    "'value' is the level on the day of the acknowledgement: a further loss is not covered."
)
LINK_FORM = "a URL such as 'https://lore.kernel.org/r/MESSAGE-ID'"
_LINK = re.compile(r"https?://[^\s/]+(/\S*)?")


def parse_link(value: object) -> str:
    """Return a URL. Raises ValueError."""
    if not isinstance(value, str) or not _LINK.fullmatch(value) or not value.isprintable() or len(value) > 500:
        raise ValueError(f"expected {LINK_FORM}, got {shown(value)}")
    return value


Link = Annotated[str, PlainValidator(parse_link), WithJsonSchema({"type": "string", "pattern": f"^{_LINK.pattern}$"})]


@dataclass(frozen=True)
class Acknowledgement:
    """The acknowledged loss of one metric: an entry of the file, and where it is written.

    ``id`` is the metric's ID, ``owner`` works on the loss, ``until`` is the last day on which the loss counts as known,
    and ``link`` is where it is tracked. ``value`` was the level on ``date``, the day of the acknowledgement.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    id: Id
    owner: Text
    until: Date
    link: Link
    value: Accepted
    date: Date
    where: Annotated[Where, *SET_LATER] = field(compare=False)


class AcknowledgedFile(Section):
    """The whole file."""

    acknowledged: list[Acknowledgement]


def read_acknowledged(path: Path) -> dict[str, Acknowledgement]:
    """Return the acknowledged losses of a file by ID; none if the file does not exist. Raises ConfigError."""
    if not exists(path):
        return {}
    file, document = read_section(path, _WHAT_LOSSES, AcknowledgedFile)
    found: dict[str, Acknowledgement] = {}
    for at, own, where in placed("acknowledged", file.acknowledged, document):
        if own.until < own.date:
            message = f"until {own.until} lies before the acknowledgement of {own.date}; expected a later day"
            raise ConfigError(message, document.value((*at, "until")))
        found[own.id] = replace(own, where=where)
    return found


def acknowledged_text(entries: Iterable[Acknowledgement]) -> str:
    """Return the text of a file with exactly these entries, sorted by ID."""
    ordered = sorted(entries, key=lambda entry: entry.id)
    return entries_text("acknowledged", ordered, _HEADER_LOSSES)


@dataclass(frozen=True)
class Reviewed:
    """The baselines and the acknowledged losses of the lab with the name ``lab``, by the ID of their metric."""

    lab: str = ""
    baselines: Mapping[str, AcceptedBaseline] = field(default_factory=dict)
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)

    def baseline(self, figure: str, lab: str) -> AcceptedBaseline | None:
        """Return the baseline of a metric. A history may have other labs, which have files of their own."""
        return self.baselines.get(figure) if lab == self.lab else None

    def acknowledgement(self, figure: str, lab: str) -> Acknowledgement | None:
        """Return the acknowledged loss of a metric."""
        return self.acknowledged.get(figure) if lab == self.lab else None


def load_reviewed(lab: LabOfFile) -> Reviewed:
    """Return what the files of a lab say. Raises ConfigError."""
    return Reviewed(lab.name, load_baselines(lab), read_acknowledged(lab.baselines / ACKNOWLEDGED))
