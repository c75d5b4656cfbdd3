"""Writes parts of a lab file, and corrects ``port:`` values in one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from pytest_pinet.config import labfile
from pytest_pinet.config.section import read_text
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.files import write_file, writing
from pytest_pinet.model.hardware import FoundNic
from pytest_pinet.model.lab import Interface, PortRef

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


# Text that needs no quotes, also inside braces.
_PLAIN_PORT = re.compile(r"[\w./+-]+")


def with_ports(text: str, file: str, ports: Mapping[Interface, PortRef]) -> str:
    """Return a lab file's text with new ports for these interfaces. Raises ConfigError if an alias holds the port."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    edits = []
    for interface, port in ports.items():
        scalar = _scalar_at(root, ("pinet", "nodes", interface.node, "interfaces", interface.name, "port"))
        if scalar is None or _uses(root, scalar) > 1:
            line = None if scalar is None else scalar.start_mark.line + 1
            message = f"the port of {interface} comes from an anchor with aliases: change it to {port} by hand"
            raise ConfigError(message, Where(file, line))
        edits.append((scalar.start_mark.index, scalar.end_mark.index, _written(str(port), scalar.style)))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _scalar_at(root: yaml.Node | None, path: tuple[str, ...]) -> yaml.ScalarNode | None:
    node = root
    for key in path:
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for name, value in node.value if name.value == key), None)
    return node if isinstance(node, yaml.ScalarNode) else None


def _uses(node: yaml.Node | None, wanted: yaml.Node) -> int:
    """Return how many places of the document show this node. An alias to it, or to a node around it, makes several."""
    if node is wanted:
        return 1
    if isinstance(node, yaml.MappingNode):
        return sum(_uses(value, wanted) for _, value in node.value)
    if isinstance(node, yaml.SequenceNode):
        return sum(_uses(value, wanted) for value in node.value)
    return 0


def _written(value: str, style: str | None) -> str:
    """Return the value in the quotes of the old value, or in new quotes if it needs some."""
    if style == '"':
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if style is None and _PLAIN_PORT.fullmatch(value):
        return value
    quoted = value.replace("'", "''")
    return f"'{quoted}'"


def read(file: str) -> str:
    """Return the text of a lab file as on disk, with byte order mark and line ends. Raises ConfigError."""
    read_text(file, labfile.WHAT)
    return Path(file).read_bytes().decode("utf-8")


def replace(file: str, text: str) -> None:
    """Write a lab file as a whole or not at all. Raises ConfigError if the new text is not a valid lab file."""
    # Write the target of a symbolic link, so that the link stays.
    path = Path(file).resolve()
    try:
        labfile.resolve(text.removeprefix("\ufeff"), str(path), in_use=True)
    except ConfigError as error:
        line = error.where.line if error.where else None
        raise ConfigError(f"file not changed, these ports are wrong: {error.message}", Where(file, line)) from None
    with writing(file):
        write_file(path, [text.encode("utf-8")])
