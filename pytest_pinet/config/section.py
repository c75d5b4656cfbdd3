"""Reads files that users write: text, and YAML that pydantic checks. A mistake is one sentence with file and line."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from pytest_pinet.config.yaml_lines import Document, parse
from pytest_pinet.config.yaml_lines import Path as YamlPath
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import nearest, shown, unknown
from pytest_pinet.model.fields import UnknownName

# The largest known lab takes about 100 kB. A larger file was named by mistake.
MAX_BYTES = 1024 * 1024


def read_text(path: str | Path, what: str, origin: str = "") -> str:
    """Return the text of ``path``. ``what`` describes the expected content (``a lab file``). Raises ConfigError.

    ``origin`` is a sentence that says where such a file comes from, for a user who has none.
    """
    where = Where(str(path))
    try:
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise ConfigError(f"this is a directory; expected {what}", where)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"this is not a regular file; expected {what}", where)
        if status.st_size > MAX_BYTES:
            megabytes = status.st_size / 1e6
            raise ConfigError(f"{megabytes:.1f} MB is too large for {what}; at most 1 MiB is read", where)
        # Files of /proc are empty for `stat`. To read some of them takes for ever.
        content = Path(path).read_bytes() if status.st_size else b""
    except FileNotFoundError:
        raise ConfigError(_missing(Path(path), f"{what}; {origin}" if origin else what), where) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid path"
        raise ConfigError(f"this cannot be read ({reason}); expected {what}", where) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{content[error.start]:02x} is not UTF-8 text; expected {what}"
        raise ConfigError(message, Where(str(path), line)) from None


def _missing(path: Path, what: str) -> str:
    try:
        neighbours = {entry.name.lower(): entry.name for entry in path.parent.iterdir() if entry.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return f"neither this file nor its directory '{path.parent}' exists; expected {what}"
    except OSError:  # a directory that may be searched, but not listed
        neighbours = {}
    near = nearest(path.name, neighbours)
    if near is None:
        return f"this file does not exist; expected {what}"
    return f"this file does not exist, did you mean '{path.parent / neighbours[near]}'?"


class Section(BaseModel):
    """A mapping in the lab file, or in a file beside it. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_T = TypeVar("_T")
_ADAPTERS: dict[object, TypeAdapter[Any]] = {}
_EXPECTED = {
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "dataclass_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "string_type": "a text",
}


def read_section(path: Path, what: str, kind: type[_T]) -> tuple[_T, Document]:
    """Read a whole file. ``what`` describes the expected content. Raises ConfigError."""
    document = parse(read_text(path, what), str(path))
    return validated(kind, keys_of(document, what), document, ()), document


def validated(kind: type[_T], data: object, document: Document, root: YamlPath, context: object = None) -> _T:
    """Return a part of a file as a value of this type: a pydantic model, a dataclass or a mapping of them.

    ``root`` is the path of this part; ``context`` knows what names in the file mean. Raises ConfigError with the
    mistake that comes first in the file.
    """
    try:
        return adapter(kind).validate_python(data, context=context)
    except ValidationError as error:
        raise first_error(error, kind, document, root) from None


def keys_of(document: Document, what: str) -> dict[str, object]:
    """Return the keys of a whole file with their values. Raises ConfigError if the file has no keys."""
    if document.data is None:
        raise ConfigError(f"the file is empty; expected {what}", document.key(()))
    if not isinstance(document.data, dict):
        raise ConfigError(f"expected {what}, got {shown(document.data)}", document.value(()))
    return document.data


def named(path: YamlPath) -> str:
    """Return a path as users write it: ``pinet.limits[2].min``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def adapter(kind: type[_T]) -> TypeAdapter[_T]:
    """Return the adapter of a type. It takes long to make one, so each is made once."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def first_error(error: ValidationError, kind: type[object], document: Document, root: YamlPath) -> ConfigError:
    """Return the error that comes first in the file. ``root`` is the path of the validated section."""
    found = [_explain(dict(detail), kind, document, root) for detail in error.errors(include_url=False)]
    return min(found, key=lambda e: (e.where.line or 0) if e.where else 0)


def _explain(detail: dict[str, Any], kind: type[object], document: Document, root: YamlPath) -> ConfigError:
    location = tuple(part for part in detail["loc"] if part != "[key]")
    path = (*root, *location)
    what = detail["type"]
    if what in ("extra_forbidden", "unexpected_keyword_argument"):
        accepted = _keys(kind, location[:-1])
        return ConfigError(unknown("key", str(path[-1]), accepted, named(path[:-1])), document.key(path))
    if what == "missing":
        given = detail["input"] if isinstance(detail["input"], dict) else {}
        wanted = str(path[-1])
        near = nearest(wanted, given)
        hint = f"; did you mean '{near}'?" if near else ""
        return ConfigError(f"{named(path[:-1]) or 'this file'} lacks the key '{wanted}'{hint}", document.key(path[:-1]))
    if what == "value_error" and isinstance(detail["ctx"]["error"], UnknownName):
        return ConfigError(str(detail["ctx"]["error"]), document.value(path))
    if what == "value_error":
        reason = str(detail["ctx"]["error"])
    elif what in _EXPECTED:
        reason = f"expected {_EXPECTED[what]}, got {shown(detail['input'])}"
    else:
        reason = f"{detail['msg']}, got {shown(detail['input'])}"
    of_key = "[key]" in detail["loc"]
    return ConfigError(f"{named(path)}: {reason}", document.key(path) if of_key else document.value(path))


def _keys(kind: type[object], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the section at this place. Schemas of mappings and lists are followed."""
    current: Any = adapter(kind).json_schema()
    definitions = current.get("$defs", {})
    current = _resolved(current, definitions)
    for part in location:
        options = [_resolved(option, definitions) for option in current.get("anyOf", [current])]
        current = next((_inner(option, part) for option in options if _inner(option, part) is not None), {})
        current = _resolved(current, definitions)
    return sorted(current.get("properties", {}))


def _inner(schema: dict[str, Any], part: int | str) -> Any:
    if isinstance(part, int):
        return schema.get("items")
    of_names = next(iter(schema.get("patternProperties", {}).values()), None)
    return schema.get("properties", {}).get(part, of_names)


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    resolved: dict[str, Any] = definitions[reference.rsplit("/", 1)[1]] if reference else schema
    return resolved
