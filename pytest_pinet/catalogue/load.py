"""Reads ``boards.yaml`` and ``nics.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import TypeAdapter

from pytest_pinet.model.hardware import Board, Nic


@dataclass(frozen=True)
class Catalogue:
    """Boards and NICs by name."""

    boards: Mapping[str, Board]
    nics: Mapping[str, Nic]


@cache
def load() -> Catalogue:
    """Return the catalogue. It is read once."""
    boards = TypeAdapter(dict[str, Board]).validate_python(
        {name: {"model": entry["title"], **entry} for name, entry in _named("boards.yaml").items()}
    )
    nics = TypeAdapter(dict[str, Nic]).validate_python(_named("nics.yaml"))
    return Catalogue(MappingProxyType(boards), MappingProxyType(nics))


def _named(file: str) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = read_data(file)
    return {name: {"name": name, **entry} for name, entry in entries.items()}


def read_data(file: str) -> Any:
    """Return the content of a YAML file of this package."""
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
