"""The fields and the writer of YAML files beside the lab file that hold a list of entries by ID."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import yaml
from pydantic import ConfigDict, PlainValidator, WithJsonSchema

from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.config.yaml_lines import Path as YamlPath
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.files import write_file, writing
from pytest_pinet.execution.names import shown
from pytest_pinet.model.quantities import Bitrate, Duration, PerGbit, PerSecond, Share

# A metric's ID: pi4b:onboard/pair/tcp-P1-tx.
_ID = re.compile(r"[^\s:/]+:[^\s:/]+(/[^\s/]+){2,3}")
ID_FORM = "the id of a metric such as 'pi4b:onboard/pair/tcp-P1-tx'"
DATE_FORM = "a date such as '2026-11-21'"
BUILD_FORM = "a mapping from names to texts"


def _id(value: object) -> str:
    # YAML writes a control character as "\0".
    if not isinstance(value, str) or not _ID.fullmatch(value) or len(value) > 300 or not value.isprintable():
        raise ValueError(f"expected {ID_FORM}, got {shown(value)}")
    return value


def parse_date(value: object) -> date:
    """Return a day. Raises ValueError."""
    try:
        return date.fromisoformat(value if isinstance(value, str) and len(value) == len("2026-11-21") else "")
    except ValueError:
        raise ValueError(f"expected {DATE_FORM}, got {shown(value)}") from None


def _build(value: object) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise ValueError(f"expected {BUILD_FORM}, got {shown(value)}")
    for key, inner in value.items():
        if inner is not None and not isinstance(inner, str):
            # YAML reads kernel: 6.10 as 6.1.
            raise ValueError(f"expected {BUILD_FORM}, numbers in quotes, got {shown(inner)} for '{key}'")
    return dict(value)


Id = Annotated[str, PlainValidator(_id), WithJsonSchema({"type": "string", "pattern": f"^{_ID.pattern}$"})]
Date = Annotated[date, PlainValidator(parse_date), WithJsonSchema({"type": "string", "format": "date"})]
Build = Annotated[Mapping[str, str | None], PlainValidator(_build), WithJsonSchema({"type": "object"})]
# Of a dataclass that is an entry: other keys are mistakes.
ONLY_KNOWN_KEYS = ConfigDict(extra="forbid")


class HasId(Protocol):
    """An entry of a file."""

    @property
    def id(self) -> str:
        """The metric's ID."""


Entry = TypeVar("Entry", bound=HasId)


def placed(key: str, entries: Iterable[Entry], document: Document) -> Iterator[tuple[YamlPath, Entry, Where]]:
    """Yield each entry of the list ``key`` with its path in the file and the place of its ID.

    Raises ConfigError for an ID that another entry has, too.
    """
    seen: dict[str, Where] = {}
    for index, own in enumerate(entries):
        where = document.key((key, index, "id"))
        if own.id in seen:
            raise ConfigError(f"'{own.id}' is a duplicate; the first one is in {seen[own.id]}", where)
        seen[own.id] = where
        yield (key, index), own, where


def entries_text(key: str, entries: Sequence[object], header: str) -> str:
    """Return the text of a file with the list ``key``. The same entries give the same text.

    An entry is a dataclass; its field ``where`` is not written. ``header`` is the comment at the top.
    """
    text = yaml.safe_dump(
        {key: _plain(entries)}, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120
    )
    return "".join(f"# {line}\n" for line in header.splitlines()) + text


def write_entries(path: Path, text: str) -> None:
    """Write a file of entries; readers never see half a file. Raises ConfigError if it cannot be written."""
    with writing(path):
        write_file(path, [text.encode("utf-8")])


def _plain(value: object) -> object:
    """Return a value as people write it: bit rates to 1 bit/s, other values to a millionth."""
    match value:
        case Bitrate():
            return f"{_short(value.bps / 1e6)} Mbit/s"
        case Share():
            return f"{_short(value.fraction * 100)}%"
        case Duration():
            return f"{_short(value.seconds * 1000)} ms"
        case PerSecond():
            return f"{_short(value.number)}/s"
        case PerGbit():
            return f"{_short(value.number)}{value.of}/Gbit"
        case list() | tuple():
            return [_plain(one) for one in value]
        case Mapping():
            return {name: _plain(part) for name, part in sorted(value.items())}
    if is_dataclass(value):
        own = {
            one.name: (getattr(value, one.name), one.default_factory) for one in fields(value) if one.name != "where"
        }
        # An empty list is a part that this entry does not have. An empty mapping that may be left out is one, too.
        return {
            name: _plain(part) for name, (part, default) in own.items() if part != () and (part or default is not dict)
        }
    return value


def _short(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
