"""Reads YAML with the line of every key and value. Accepts the same files as labgrid's loader, also ``!template``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from pytest_pinet.config.template import Template
from pytest_pinet.config.yaml_nodes import TAG, TEMPLATE, YamlNode, compose
from pytest_pinet.errors import ConfigError, Where

Path = tuple[str | int, ...]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_TYPED = {
    f"{TAG}null": _CONSTRUCTOR.construct_yaml_null,
    f"{TAG}bool": _CONSTRUCTOR.construct_yaml_bool,
    f"{TAG}int": _CONSTRUCTOR.construct_yaml_int,
    f"{TAG}float": _CONSTRUCTOR.construct_yaml_float,
}


@dataclass(frozen=True)
class Document:
    """Plain dicts, lists and scalars (keys are text), and the line of each path."""

    file: str
    data: object
    key_lines: Mapping[Path, int]
    value_lines: Mapping[Path, int]

    def key(self, path: Path) -> Where:
        """Return the place of this path's key, or of the nearest enclosing path if there is no such key."""
        return Where(self.file, _closest(self.key_lines, path))

    def value(self, path: Path) -> Where:
        """Return the place of this path's value; without such a value, of the nearest enclosing path's key."""
        return Where(self.file, _closest(self.value_lines if path in self.value_lines else self.key_lines, path))


def _closest(lines: Mapping[Path, int], path: Path) -> int | None:
    return next((lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines), None)


def parse(text: str, file: str) -> Document:
    """Read one YAML document. ``data`` is None if it is empty. Raises ConfigError."""
    try:
        root = compose(yaml.parse(text, Loader=_LOADER), file)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, file) from None
    except yaml.reader.ReaderError as error:
        # ``position`` counts characters in one parser and bytes in the other, so no line is given.
        raise ConfigError(f"this is not YAML: {error.reason}", Where(file)) from None
    key_lines: dict[Path, int] = {}
    value_lines: dict[Path, int] = {}
    data = None if root is None else _construct(root, (), key_lines, value_lines)
    return Document(file, data, key_lines, value_lines)


def _not_yaml(error: yaml.MarkedYAMLError, file: str) -> ConfigError:
    """Return the parser's message, with the lines of the problem and of the beginning of the broken construct."""
    begin = error.context_mark.line + 1 if error.context_mark else None
    line = error.problem_mark.line + 1 if error.problem_mark else begin
    context = error.context or ""
    if context and begin is not None and begin != line:
        context += f" from line {begin} on"
    reason = ", ".join(part for part in (context, error.problem) if part)
    return ConfigError(f"this is not YAML: {reason}", Where(file, line))


def _construct(node: YamlNode, path: Path, key_lines: dict[Path, int], value_lines: dict[Path, int]) -> object:
    value_lines[path] = node.line
    if node.kind == "list":
        for index, child in enumerate(node.children):
            key_lines[(*path, index)] = child.line
        return [_construct(child, (*path, i), key_lines, value_lines) for i, child in enumerate(node.children)]
    if node.kind == "map":
        mapping: dict[str, object] = {}
        for key, child in zip(node.keys, node.children, strict=True):
            inner = (*path, key.text)
            key_lines[inner] = key.line
            mapping[key.text] = _construct(child, inner, key_lines, value_lines)
        return mapping
    if node.tag == TEMPLATE:
        return Template(node.text)
    construct = _TYPED.get(node.tag)
    if construct is None:
        return node.text
    try:
        value: object = construct(yaml.ScalarNode(node.tag, node.text))
    except (ValueError, KeyError, IndexError):
        return node.text  # looks like a number but is none (0b_): the schema refuses a text in place of a number
    return value
