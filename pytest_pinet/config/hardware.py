"""The boards and NICs of a lab: the catalogue, with the lab file's additions and changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.load import written
from pytest_pinet.config.messages import adapter, first_error
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.fields import Name
from pytest_pinet.model.hardware import Board, Hardware, Nic

_T = TypeVar("_T")


def read_hardware(pinet: Mapping[str, object], document: Document) -> Hardware:
    """Return the catalogue with the sections ``nics`` and ``boards`` of a lab file. Raises ConfigError."""
    known = load()
    nics = {
        name: replace(nic, name=name, ids=known.nics[name].ids if name in known.nics else ())
        for name, nic in _section("nics", dict[Name, Nic], pinet, document, known).items()
    }
    known = Hardware(known.boards, {**known.nics, **nics})
    boards = {
        name: replace(board, name=name)
        for name, board in _section("boards", dict[Name, Board], pinet, document, known).items()
    }
    return Hardware({**known.boards, **boards}, known.nics)


def _section(
    key: str, kind: type[dict[str, _T]], pinet: Mapping[str, object], document: Document, known: Hardware
) -> dict[str, _T]:
    """Return the entries of a section. What an entry leaves out, the catalogue has."""
    own = pinet.get(key, {})
    if isinstance(own, dict):
        own = {name: _completed(key, name, entry) if isinstance(entry, dict) else entry for name, entry in own.items()}
    try:
        return adapter(kind).validate_python(own, context=known)
    except ValidationError as error:
        found = error.errors(include_url=False)
        if any(one["type"] != "missing" for one in found):
            raise first_error(error, kind, document, ("pinet", key)) from None
        name = str(found[0]["loc"][0])
        lacking = " and ".join(f"'{one['loc'][1]}'" for one in found if one["loc"][0] == name)
        message = f"'{name}' is not in the catalogue, so pinet.{key}.{name} must give {lacking} too"
        raise ConfigError(message, document.key(("pinet", key, name))) from None


def _completed(key: str, name: str, entry: Mapping[str, object]) -> dict[str, object]:
    default = {"title": name, "chip": name} if key == "nics" else {"title": name}
    of_catalogue = {part: value for part, value in written(key).get(name, default).items() if part != "ids"}
    return of_catalogue | {part: value for part, value in entry.items() if value is not None}
