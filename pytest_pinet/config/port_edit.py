"""Corrects ``port:`` values in the text of a lab file. Only these scalars change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from pytest_pinet.config import labfile
from pytest_pinet.config.file_text import read_text
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.output_file import write_file, writing
from pytest_pinet.model.lab import Interface, PortRef

# Text that needs no quotes, also inside braces.
_PLAIN = re.compile(r"[\w./+-]+")


def with_ports(text: str, file: str, ports: Mapping[Interface, PortRef]) -> str:
    """Return a lab file's text with new ports for these interfaces. Raises ConfigError if an alias holds the port."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    edits = []
    for interface, port in ports.items():
        scalar = _scalar(root, ("pinet", "nodes", interface.node, "interfaces", interface.name, "port"))
        if scalar is None or _uses(root, scalar) > 1:
            line = None if scalar is None else scalar.start_mark.line + 1
            message = f"the port of {interface} comes from an anchor with aliases: change it to {port} by hand"
            raise ConfigError(message, Where(file, line))
        edits.append((scalar.start_mark.index, scalar.end_mark.index, _written(str(port), scalar.style)))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _scalar(root: yaml.Node | None, path: tuple[str, ...]) -> yaml.ScalarNode | None:
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
    if style is None and _PLAIN.fullmatch(value):
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
