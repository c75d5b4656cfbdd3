"""The cables between the switches of a lab."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.config.nodes import resolve_port
from pytest_pinet.config.schema import UplinkSection
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.lab import Switch, Uplink


def resolve_uplink(name: str, section: UplinkSection, switches: Mapping[str, Switch], document: Document) -> Uplink:
    """One uplink. Raises ConfigError for ports that are not on two switches of this lab."""
    path = ("pinet", "uplinks", name)
    first, second = (resolve_port(address, switches, document, (*path, "ports")) for address in section.ports)
    if first.switch == second.switch:
        message = f"uplink '{name}' has both its ends on switch {first.switch}; expected ports of two switches"
        raise ConfigError(message, document.value((*path, "ports")))
    if section.speed.bps % 1e6:
        message = f"uplink '{name}': {section.speed} is no link speed; expected one such as '1 Gbit/s'"
        raise ConfigError(message, document.value((*path, "speed")))
    speed_mbps = round(section.speed.bps / 1e6)
    return Uplink(name, (first, second), section.place or name, speed_mbps, document.key(path))
