"""The JSON Schema of ``results.json``, generated from its records.

``python -m tools.results_schema`` regenerates the shipped file; a test checks that it is current. Pydantic's own
schema is not used, for two reasons. Its text changes between versions of pydantic. And it does not require a
key that has a default, although each file that this version writes has the key.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from pytest_pinet.model.record.base import RARE, Beside, Record
from pytest_pinet.model.record.result import SCHEMA_VERSION, RunRecord
from pytest_pinet.model.verdict import SEVERITY, Verdict

SCHEMA_FILE = Path(__file__).parents[1] / "pytest_pinet" / "report" / "results.schema.json"
_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def results_schema() -> dict[str, Any]:
    """Return the schema of a whole ``results.json``. It allows further keys, so that a later version can add some."""
    definitions: dict[str, Any] = {}
    top = _schema(RunRecord, definitions)
    definitions["RunRecord"]["properties"]["schema"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"pytest-pinet results.json, version {SCHEMA_VERSION}",
        **top,
        "$defs": definitions,
    }


def schema_text() -> str:
    """Return the content of SCHEMA_FILE."""
    return json.dumps(results_schema(), indent=2) + "\n"


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if all(argument in _SIMPLE for argument in arguments):
            return {"type": [_SIMPLE[argument] for argument in arguments]}
        return {"anyOf": [_schema(argument, definitions) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if hint is Verdict:
        return {"enum": [verdict.value for verdict in SEVERITY]}
    if issubclass(hint, StrEnum):
        # A later version may add words.
        return {"type": "string"}
    return {"type": _SIMPLE[hint]} if hint in _SIMPLE else _reference(hint, definitions)


def _reference(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the reference to a record or a dataclass, which is added to the definitions."""
    if record.__name__ not in definitions:
        definitions[record.__name__] = {}
        if issubclass(record, Record):
            fields = {field.alias or name: field for name, field in record.model_fields.items()}
            hints = {name: _written(field) for name, field in fields.items()}
            required = [name for name, field in fields.items() if not _is_optional(field)]
        else:
            hints = get_type_hints(record)
            required = list(hints)
        definitions[record.__name__] = {
            "description": " ".join((record.__doc__ or "").split()),
            "type": "object",
            "properties": {name: _schema(hint, definitions) for name, hint in hints.items()},
            "required": required,
        }
    return {"$ref": f"#/$defs/{record.__name__}"}


def _is_optional(field: FieldInfo) -> bool:
    return any(mark == RARE or isinstance(mark, Beside) for mark in field.metadata)


def _written(field: FieldInfo) -> Any:
    """Return the type of a value in the file. A rare key without a value is not written, so that it is never null."""
    if RARE not in field.metadata:
        return field.annotation
    return Union[tuple(one for one in get_args(field.annotation) if one is not type(None))]  # noqa: UP007


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
