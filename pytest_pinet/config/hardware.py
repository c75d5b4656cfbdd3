"""The boards and NICs of a lab: the catalogue, with the lab file's additions and changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pytest_pinet.catalogue import Catalogue, load
from pytest_pinet.config.schema import BoardSection, NicSection, PinetSection
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.hardware import Board, Bus, Nic


@dataclass(frozen=True)
class Hardware:
    """Boards and NICs by name; ``aliases`` maps product names to NIC names."""

    boards: Mapping[str, Board]
    nics: Mapping[str, Nic]
    aliases: Mapping[str, str]

    def nic_name(self, name: str) -> str:
        """Return the catalogue name of a catalogue or product name; an unknown name is returned unchanged."""
        return self.aliases.get(name, name)

    @property
    def nic_names(self) -> list[str]:
        """Return all names that are accepted for a NIC."""
        return [*self.nics, *self.aliases]


def resolve_hardware(section: PinetSection, document: Document) -> Hardware:
    """Merge the sections ``boards`` and ``nics`` over the catalogue. Raises ConfigError."""
    catalogue = load()
    nics = {**catalogue.nics, **{name: _nic(name, own, catalogue, document) for name, own in section.nics.items()}}
    aliases: dict[str, str] = {}
    for nic in nics.values():
        aliases.update((product, nic.name) for product in nic.products if product not in nics)
    hardware = Hardware(catalogue.boards, nics, aliases)
    boards = {name: _board(name, own, hardware, document) for name, own in section.boards.items()}
    return replace(hardware, boards={**catalogue.boards, **boards})


def _nic(name: str, own: NicSection, catalogue: Catalogue, document: Document) -> Nic:
    given = _given(own)
    if "bus" in given:
        given["bus"] = Bus(given["bus"])
    if "speeds_mbps" in given:
        given["speeds_mbps"] = tuple(sorted(given["speeds_mbps"]))
    known = catalogue.nics.get(name)
    if known is not None:
        return replace(known, **given)
    _require("nics", name, given, ("driver", "bus", "speeds_mbps"), document)
    return Nic(**({"name": name, "title": name, "chip": name} | given))


def _board(name: str, own: BoardSection, hardware: Hardware, document: Document) -> Board:
    given = _given(own)
    if "buses" in given:
        given["buses"] = tuple(Bus(bus) for bus in given["buses"])
    if "onboard" in given:
        onboard = given["onboard"] = hardware.nic_name(given["onboard"])
        if onboard not in hardware.nics:
            where = document.value(("pinet", "boards", name, "onboard"))
            raise ConfigError(unknown("NIC", onboard, hardware.nic_names), where)
    known = hardware.boards.get(name)
    if known is not None:
        return replace(known, **given)
    _require("boards", name, given, ("clock_mhz", "cores", "buses"), document)
    return Board(**({"name": name, "title": name, "onboard": None} | given))


def _given(section: BoardSection | NicSection) -> dict[str, Any]:
    values = section.model_dump(exclude_none=True)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def _require(kind: str, name: str, given: Mapping[str, object], keys: tuple[str, ...], document: Document) -> None:
    lacking = [f"'{key}'" for key in keys if key not in given]
    if lacking:
        message = f"'{name}' is not in the catalogue, so pinet.{kind}.{name} must give {' and '.join(lacking)} too"
        raise ConfigError(message, document.key(("pinet", kind, name)))
