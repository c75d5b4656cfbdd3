"""The JSON Schema of ``results.json``, generated from its TypedDicts.

``python -m pytest_pinet.report.schema`` regenerates the shipped file; a test checks that it is current. pydantic cannot
generate it: it rejects ``typing.TypedDict`` before Python 3.12, and its wording changes between versions.
"""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pytest_pinet.model.verdict import SEVERITY
from pytest_pinet.report.record import SCHEMA_VERSION, RunRecord

SCHEMA_FILE = Path(__file__).with_name("results.schema.json")
_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def results_schema() -> dict[str, Any]:
    """Return the schema of a whole ``results.json``. It allows further keys, so that a later version can add some."""
    definitions: dict[str, Any] = {}
    top = _schema(RunRecord, definitions)
    definitions["RunRecord"]["properties"]["schema"] = {"const": SCHEMA_VERSION}
    for name in ("ResultRecord", "DirectionRecord"):
        definitions[name]["properties"]["verdict"] = {"enum": [verdict.value for verdict in SEVERITY]}
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
    if is_typeddict(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}
            hints = get_type_hints(hint)
            definitions[hint.__name__] = {
                "description": " ".join((hint.__doc__ or "").split()),
                "type": "object",
                "properties": {name: _schema(inner, definitions) for name, inner in hints.items()},
                "required": sorted(hint.__required_keys__, key=list(hints).index),
            }
        return {"$ref": f"#/$defs/{hint.__name__}"}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType) and not all(argument in _SIMPLE for argument in arguments):
        return {"anyOf": [_schema(argument, definitions) for argument in arguments]}
    if origin in (Union, types.UnionType):
        return {"type": [_SIMPLE[argument] for argument in arguments]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    return {"type": _SIMPLE[hint]}


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
