"""Reads ``boards.yaml`` and ``nics.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import yaml

from pytest_pinet.model.hardware import Board, Bus, Nic


@dataclass(frozen=True)
class Catalogue:
    """Boards and NICs by name."""

    boards: Mapping[str, Board]
    nics: Mapping[str, Nic]


@cache
def load() -> Catalogue:
    """Return the catalogue. It is read once."""
    boards = {
        name: Board(
            name=name,
            title=entry["title"],
            clock_mhz=entry["clock_mhz"],
            cores=entry["cores"],
            buses=tuple(Bus(bus) for bus in entry["buses"]),
            onboard=entry.get("onboard"),
            sources=tuple(entry["sources"]),
        )
        for name, entry in _read("boards.yaml").items()
    }
    nics = {
        name: Nic(
            name=name,
            title=entry["title"],
            chip=entry["chip"],
            driver=entry["driver"],
            bus=Bus(entry["bus"]),
            speeds_mbps=tuple(entry["speeds_mbps"]),
            mtu_max=entry.get("mtu_max", 1500),
            products=tuple(entry.get("products", ())),
            traits=tuple(entry.get("traits", ())),
            sources=tuple(entry["sources"]),
        )
        for name, entry in _read("nics.yaml").items()
    }
    return Catalogue(MappingProxyType(boards), MappingProxyType(nics))


def _read(name: str) -> dict[str, dict[str, Any]]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    entries: dict[str, dict[str, Any]] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return entries
