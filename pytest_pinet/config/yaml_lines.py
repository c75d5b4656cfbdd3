"""Reads YAML with the line of every key and value. Accepts the same files as labgrid's loader, also ``!template``.

Refuses cycles, endless alias expansion and duplicate keys.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import yaml

from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import LONGEST, quoted
from pytest_pinet.model.forms import Template

# A lab of 500 nodes has about 10,000 values and 8 levels.
MAX_VALUES = 100_000
MAX_DEPTH = 40
# The longest known text is a password prompt. YAML reads 1:1:1 as a number of base 60, which takes long to compute.
MAX_SCALAR = 4_000

Path = tuple[str | int, ...]

TAG = "tag:yaml.org,2002:"
TEMPLATE = "!template"
_COLLECTION_TAGS = {f"{TAG}map", f"{TAG}seq"}
# Without a tag, YAML gives a text such as 2001-01-01 the tag of a time, and '=' that of a value.
_SCALAR_TAGS = {f"{TAG}{kind}" for kind in ("null", "bool", "int", "float", "str", "timestamp", "value", "merge")}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_TYPED = {
    f"{TAG}null": _CONSTRUCTOR.construct_yaml_null,
    f"{TAG}bool": _CONSTRUCTOR.construct_yaml_bool,
    f"{TAG}int": _CONSTRUCTOR.construct_yaml_int,
    f"{TAG}float": _CONSTRUCTOR.construct_yaml_float,
}


def substitute(text: str, env: Mapping[str, str], file: str = "") -> str:
    """Fill ``$LG_*`` from ``env`` and ``$BASE``, the folder of the lab file, into a Template.

    Other text stays unchanged. As in labgrid, other variables are unknown. Raises ConfigError, which names the
    variable.
    """
    if not isinstance(text, Template):
        return text
    values = {name: value for name, value in env.items() if name.startswith("LG_")}
    values["BASE"] = str(FilePath(file).absolute().parent)
    try:
        return string.Template(text).substitute(values)
    except KeyError as error:
        name = str(error.args[0])
        act = f"run: export {name}=..." if name.startswith("LG_") else "known are $BASE and LG_*"
        raise ConfigError(f"!template {quoted(text)} needs the variable {name}, which is not set; {act}") from None
    except ValueError:
        raise ConfigError(
            f"!template {quoted(text)} has a '$' without a variable name; write '$$' for a dollar sign"
        ) from None


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
        _check_structure(text, file)
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, file) from None
    except yaml.reader.ReaderError as error:
        # ``position`` counts characters in one parser and bytes in the other.
        found = yaml.reader.Reader.NON_PRINTABLE.search(text)
        line = None if found is None else text.count("\n", 0, found.start()) + 1
        shown_as = "" if found is None else f": {found[0].encode('unicode_escape').decode()}"
        raise ConfigError(f"this is not YAML: {error.reason}{shown_as}", Where(file, line)) from None
    reader = _Reader(file)
    data = None if root is None else reader.value(root, ())
    return Document(file, data, reader.key_lines, reader.value_lines)


def _check_structure(text: str, file: str) -> None:
    """Refuse what `yaml.compose` cannot take (deep nesting), or reports without the line that must change."""
    # The anchors of the collections around the event, and all anchors so far by their lines.
    around: list[str | None] = []
    anchors: dict[str, int] = {}
    documents = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 1
        where = Where(file, line)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise ConfigError("a second YAML document begins here; expected only one", where)
        elif isinstance(event, yaml.AliasEvent):
            alias = quoted(f"*{event.anchor}")
            if event.anchor not in anchors:
                raise ConfigError(f"unknown alias {alias}; its anchor must come before it", where)
            if event.anchor in around:
                begin = anchors[event.anchor]
                raise ConfigError(f"{alias} is used inside its own anchor (line {begin}): a cycle", where)
        elif isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_SCALAR:
            message = f"a text of {len(event.value)} characters is too long; at most {MAX_SCALAR} are read"
            raise ConfigError(message, where)
        elif isinstance(event, yaml.NodeEvent) and event.anchor:
            anchors[event.anchor] = line
        if isinstance(event, yaml.CollectionStartEvent):
            if len(around) >= MAX_DEPTH:
                raise _too_deep(where)
            around.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            around.pop()


def _too_deep(where: Where) -> ConfigError:
    return ConfigError(f"this is nested more than {MAX_DEPTH} levels deep", where)


def _not_yaml(error: yaml.MarkedYAMLError, file: str) -> ConfigError:
    """Return the parser's message, with the lines of the problem and of the beginning of the broken construct."""
    begin = error.context_mark.line + 1 if error.context_mark else None
    line = error.problem_mark.line + 1 if error.problem_mark else begin
    if "nesting depth" in (error.problem or ""):
        # libyaml since 0.2.6 has a limit of its own, and its scanner reads ahead of the events that we count.
        return _too_deep(Where(file, line))
    context = error.context or ""
    if context and begin is not None and begin != line:
        context += f" from line {begin} on"
    reason = ", ".join(part for part in (context, error.problem) if part)
    return ConfigError(f"this is not YAML: {reason}", Where(file, line))


@dataclass
class _Reader:
    """Makes plain data from nodes, and keeps the lines."""

    file: str
    key_lines: dict[Path, int] = field(default_factory=dict)
    value_lines: dict[Path, int] = field(default_factory=dict)

    def value(self, node: yaml.Node, path: Path) -> object:
        """Return the data of a node. Raises ConfigError for tags and keys that labgrid does not support."""
        self.value_lines[path] = _line(node)
        if len(self.value_lines) > MAX_VALUES or len(path) >= MAX_DEPTH:
            bound = f"{MAX_VALUES} values" if len(path) < MAX_DEPTH else f"{MAX_DEPTH} levels"
            message = f"an entry has more than {bound} after aliases are expanded"
            raise ConfigError(message, Where(self.file, self.key_lines.get(path[:1])))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if node.tag not in _COLLECTION_TAGS:
            raise ConfigError(f"unknown tag {quoted(node.tag)}; accepted: {TEMPLATE}", self._where(node))
        if isinstance(node, yaml.SequenceNode):
            self.key_lines.update({(*path, index): _line(child) for index, child in enumerate(node.value)})
            return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
        mapping: dict[str, object] = {}
        for key, child in node.value:
            name = self._key(key)
            inner = (*path, name)
            if name in mapping:
                message = f"key '{name}' is a duplicate; the first one is in line {self.key_lines[inner]}"
                raise ConfigError(message, self._where(key))
            self.key_lines[inner] = _line(key)
            mapping[name] = self.value(child, inner)
        return mapping

    def _where(self, node: yaml.Node) -> Where:
        return Where(self.file, _line(node))

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            kind = "mapping" if isinstance(node, yaml.MappingNode) else "list"
            raise ConfigError(f"a {kind} cannot be a key; expected a name", self._where(node))
        if node.tag == f"{TAG}merge":
            message = "labgrid does not support the merge key '<<'; write the keys out, or use an alias for the whole"
            raise ConfigError(f"{message} mapping", self._where(node))
        self._scalar(node)
        name = str(node.value)
        if len(name) > LONGEST or not name.isprintable():
            raise ConfigError(f"{quoted(name)} cannot be a key; expected a name", self._where(node))
        return name

    def _scalar(self, node: yaml.ScalarNode) -> object:
        if node.tag == TEMPLATE:
            return Template(node.value)
        if node.tag not in _SCALAR_TAGS:
            raise ConfigError(f"unknown tag {quoted(node.tag)}; accepted: {TEMPLATE}", self._where(node))
        try:
            value = _TYPED[node.tag](node)
        except (ValueError, KeyError, IndexError):
            # A text, or it looks like a number but is none (0b_): the schema refuses a text in place of a number.
            return str(node.value)
        # Of 0x10, 010, 1_000 and 10:20, the text is meant: a port, a mask of CPUs, a password.
        is_rewritten = isinstance(value, int) and not isinstance(value, bool) and str(value) != node.value
        return str(node.value) if is_rewritten else value


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
