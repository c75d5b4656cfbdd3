"""Reads YAML with the line of every key and value. Accepts the same files as labgrid's loader, also ``!template``.

Refuses cycles, endless alias expansion and duplicate keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from pytest_pinet.config.template import Template
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import LONGEST, quoted

# A lab of 500 nodes has about 10,000 values and 8 levels.
MAX_VALUES = 100_000
MAX_DEPTH = 40

_RESOLVER = yaml.resolver.Resolver()
TAG = "tag:yaml.org,2002:"
TEMPLATE = "!template"
_COLLECTION_TAGS = {None, "!", f"{TAG}map", f"{TAG}seq", f"{TAG}python/tuple"}


@dataclass(eq=False)
class YamlNode:
    """A value as written. ``values`` and ``depth`` count its expansion, with aliases followed."""

    kind: str
    line: int
    text: str = ""
    tag: str = ""
    keys: list[YamlNode] = field(default_factory=list)
    children: list[YamlNode] = field(default_factory=list)
    first_lines: dict[str, int] = field(default_factory=dict)
    values: int = 1
    depth: int = 1


def compose(events: Iterator[yaml.Event], file: str) -> YamlNode | None:
    """Return the root of one document, or None if it is empty. Raises ConfigError."""
    root: YamlNode | None = None
    anchors: dict[str, YamlNode] = {}
    stack: list[YamlNode] = []
    documents = 0
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 1
        where = Where(file, line)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise ConfigError("a second YAML document begins here; expected one", where)
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            node = stack.pop()
            node.values = 1 + sum(child.values for child in node.keys + node.children)
            node.depth = 1 + max((child.depth for child in node.children), default=0)
            if node.values > MAX_VALUES or node.depth > MAX_DEPTH:
                bound = f"{MAX_VALUES} values" if node.values > MAX_VALUES else f"{MAX_DEPTH} levels"
                raise ConfigError(f"this has more than {bound} after aliases are expanded", Where(file, node.line))
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise ConfigError(f"unknown alias {quoted(f'*{event.anchor}')}; its anchor must come before it", where)
            node = anchors[event.anchor]
            if any(node is around for around in stack):
                raise ConfigError(
                    f"{quoted(f'*{event.anchor}')} is used inside its own anchor (line {node.line}): a cycle", where
                )
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(stack) >= MAX_DEPTH:
                raise ConfigError(f"this is nested more than {MAX_DEPTH} levels deep", where)
            if event.tag not in _COLLECTION_TAGS:
                raise ConfigError(f"unknown tag {quoted(str(event.tag))}; accepted: {TEMPLATE}", where)
            kind = "map" if isinstance(event, yaml.MappingStartEvent) else "list"
            node = YamlNode(kind, line)
            if event.anchor:
                anchors[event.anchor] = node
            stack.append(node)
            continue
        elif isinstance(event, yaml.ScalarEvent):
            node = _scalar(event, where)
            if event.anchor:
                anchors[event.anchor] = node
        else:
            continue
        if stack:
            _attach(stack[-1], node, where)
        else:
            root = node
    return root


def _scalar(event: yaml.ScalarEvent, where: Where) -> YamlNode:
    tag = event.tag
    if tag is None or tag == "!":
        tag = str(_RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit))  # type: ignore[no-untyped-call]
    if not (tag.startswith(TAG) or tag == TEMPLATE):
        raise ConfigError(f"unknown tag {quoted(tag)}; accepted: {TEMPLATE}", where)
    return YamlNode("scalar", where.line or 0, text=event.value, tag=tag)


def _attach(parent: YamlNode, node: YamlNode, where: Where) -> None:
    """Add a finished node to the collection around it. In a mapping, keys and values alternate."""
    if parent.kind == "list" or len(parent.keys) > len(parent.children):
        parent.children.append(node)
        return
    if node.kind != "scalar":
        raise ConfigError(f"a {'mapping' if node.kind == 'map' else 'list'} cannot be a key; expected a name", where)
    if node.tag == f"{TAG}merge":
        raise ConfigError(
            "labgrid does not support the merge key '<<'; write the keys out, or use an alias for the whole mapping",
            where,
        )
    if len(node.text) > LONGEST or not node.text.isprintable():
        raise ConfigError(f"{quoted(node.text)} cannot be a key; expected a name", where)
    first = parent.first_lines.setdefault(node.text, where.line or 0)
    if len(parent.first_lines) == len(parent.keys):
        raise ConfigError(f"key '{node.text}' is a duplicate; the first one is in line {first}", where)
    parent.keys.append(node)


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
