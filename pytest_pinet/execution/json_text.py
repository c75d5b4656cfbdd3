"""Reads JSON that others wrote: only what JSON allows, with numbers that a database and a page can hold."""

from __future__ import annotations

import json
import math
import re

# A lone surrogate stands for an undecodable byte, mostly of a console. A database and a terminal cannot take one.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LARGEST = 2**63


def parse_json(text: str | bytes) -> object:
    """Return the value of a JSON text. Raises ValueError, which says in a few words what is wrong."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        value: object = json.loads(text, parse_constant=_constant, parse_float=_float, parse_int=_int)
        return _without_surrogates(value) if _SURROGATE.search(raw) else value
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large")
    return value


def _int(text: str) -> int:
    if len(text) > 20 or abs(value := int(text)) >= _LARGEST:
        raise ValueError(f"{text[:40]} is too large")
    return value


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list):
        return [_without_surrogates(inner) for inner in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(inner) for key, inner in value.items()}
    return value
