"""The acknowledged losses of a lab: one file beside the baselines. It changes by review, never by a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from pytest_pinet.config.baselines import Accepted
from pytest_pinet.config.entries import ONLY_KNOWN_KEYS, Date, Id, entries_text, placed
from pytest_pinet.config.messages import read_section
from pytest_pinet.config.section import Section
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import shown
from pytest_pinet.execution.path_kind import exists
from pytest_pinet.model.fields import SET_LATER, Text

WHAT = "a file of acknowledged losses (a list under the key 'acknowledged')"
HEADER = (
    "Losses that are known: who works on each, the last day on which it counts as known, and where it is tracked.\n"
    "'goodput' is the level on the day of the acknowledgement: a further loss is not covered."
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
    and ``link`` is where it is tracked. ``goodput`` was the level on ``date``, the day of the acknowledgement.
    """

    __pydantic_config__ = ONLY_KNOWN_KEYS

    id: Id
    owner: Text
    until: Date
    link: Link
    goodput: Accepted
    date: Date
    where: Annotated[Where, *SET_LATER] = field(compare=False)


class AcknowledgedFile(Section):
    """The whole file."""

    acknowledged: list[Acknowledgement]


def read_acknowledged(path: Path) -> dict[str, Acknowledgement]:
    """Return the acknowledged losses of a file by ID; none if the file does not exist. Raises ConfigError."""
    if not exists(path):
        return {}
    file, document = read_section(path, WHAT, AcknowledgedFile)
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
    return entries_text("acknowledged", ordered, HEADER)
