"""The reference of the lab file and of results.json, from their JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.site.markdown import code, of_docstring, plain, table

Schema = dict[str, Any]


def lab_file() -> str:
    """Return a section for each mapping of the lab file. ``NAME`` stands for a name that the user chooses."""
    from pytest_pinet.config.schema import json_schema

    schema: Schema = json.loads(json.dumps(json_schema()))
    top = schema["properties"]["pinet"]
    for one in schema["$defs"].values():
        one["by_path"] = True
    sections = [("pinet", top), *_below("pinet", top, schema["$defs"])]
    return "\n".join(_section(f"`{path}`", one, schema["$defs"]) for path, one in sections)


def results() -> str:
    """Return a section for each record of results.json."""
    from tools.results_schema import schema_text

    schema: Schema = json.loads(schema_text())
    return "\n".join(_section(name, one, schema["$defs"]) for name, one in schema["$defs"].items())


def _below(path: str, section: Schema, known: dict[str, Schema]) -> Iterator[tuple[str, Schema]]:
    for key, value in section.get("properties", {}).items():
        for name, step in ((_of_mapping(value), ".NAME"), (value.get("items", {}).get("$ref"), "[]")):
            if name:
                found = known[name.rpartition("/")[2]]
                yield f"{path}.{key}{step}", found
                yield from _below(f"{path}.{key}{step}", found, known)


def _of_mapping(value: Schema) -> str | None:
    patterns = [one.get("$ref") for one in value.get("patternProperties", {}).values()]
    return patterns[0] if patterns else None


def _section(title: str, section: Schema, known: dict[str, Schema]) -> str:
    required = section.get("required", [])
    rows = []
    for key, value in section.get("properties", {}).items():
        default = "required" if key in required else _default(value)
        rows.append([code(key), _form(value, known), default, plain(value.get("description", ""))])
    head = f"## {title}\n\n{of_docstring(section.get('description', ''))}\n"
    if "enum" in section:
        head += f"\n{_form(section, known)}\n"
    # A column that no row uses is left out.
    used = [number for number in range(4) if number < 2 or any(row[number] for row in rows)]
    names = ["key", "value", "default", "meaning"]
    return head + "\n" + table([names[one] for one in used], [[row[one] for one in used] for row in rows])


def _default(value: Schema) -> str:
    default = value.get("default")
    return "" if default in (None, [], {}, "") else code(json.dumps(default).strip('"'))


def _form(value: Schema, known: dict[str, Schema]) -> str:
    """Return the accepted values in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        if known.get(name, {}).get("type") != "object":
            return _form(known.get(name, {}), known)
        # The sections of the lab file are listed by their path.
        return "mappings" if known.get(name, {}).get("by_path") else f"[{name}](#{name.lower()})"
    if "enum" in value:
        return ", ".join(code(one) for one in value["enum"])
    if "const" in value:
        return code(value["const"])
    if "anyOf" in value:
        forms = [_form(one, known) for one in value["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(forms))
    if value.get("patternProperties") or isinstance(value.get("additionalProperties"), dict):
        return "a mapping"
    kinds = value.get("type", "any value")
    if kinds == "array":
        inside = _form(value["items"], known) if isinstance(value.get("items"), dict) else ""
        return f"a list of {inside}" if inside else "a list"
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
    shown = [names.get(one, one) for one in ([kinds] if isinstance(kinds, str) else kinds) if one != "null"]
    if value.get("pattern"):
        return f"{' or '.join(shown)} like `{value['pattern']}`" if len(value["pattern"]) < 30 else " or ".join(shown)
    return " or ".join(shown)
