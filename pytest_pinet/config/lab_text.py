"""Writes parts of a lab file: values, mappings in braces, and the keys that find a NIC."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pytest_pinet.model.hardware import FoundNic

# Text that needs no quotes, and that YAML does not read as a number, as true, false or nothing.
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)\Z)[A-Za-z_][\w/.+-]*|[\d.]+ [kMG]?bit/s", re.IGNORECASE)
Value = str | int | Iterable["str | int"]


def scalar(value: str | int) -> str:
    """Return a value for YAML. In quotes, YAML reads no address as a number, and no comma as the end of the value."""
    if isinstance(value, int) or _PLAIN.fullmatch(value):
        return str(value)
    line = "".join(c if c.isprintable() else " " for c in value)
    return "'" + line.replace("'", "''") + "'"


def mapping(values: Mapping[str, Value]) -> str:
    """Return a mapping in braces."""
    return "{" + ", ".join(f"{key}: {_value(value)}" for key, value in values.items()) + "}"


def _value(value: Value) -> str:
    return scalar(value) if isinstance(value, str | int) else f"[{', '.join(map(scalar, value))}]"


def identity(nic: FoundNic) -> dict[str, str]:
    """Return the keys of an interface that find and check this NIC."""
    keys = {"mac": nic.permanent_mac or nic.mac, "driver": nic.driver, "bus_info": nic.bus_info}
    return {key: value for key, value in keys.items() if value is not None}
