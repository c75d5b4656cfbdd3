"""Reads JSON that others wrote: only what JSON allows, with numbers that a database and a page can hold.

A key that an object has twice is refused: programs differ in which of the two values counts.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter

from pytest_pinet.execution.names import quoted

# A lone surrogate stands for an undecodable byte, mostly of a console. A database and a terminal cannot take one.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LARGEST = 2**63


def parse_json(text: str | bytes) -> object:
    """Return the value of a JSON text. Raises ValueError, which says in a few words what is wrong."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        plain = text if isinstance(text, str) else text.decode("utf-8-sig")
        value: object = _DECODER.decode(plain)
        return _without_surrogates(value) if _SURROGATE.search(raw) else value
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: byte 0x{raw[error.start]:02x} is not UTF-8 text") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {quoted(twice)} occurs twice in one object")
    return found


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


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int)


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list):
        return [_without_surrogates(inner) for inner in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(inner) for key, inner in value.items()}
    return value
