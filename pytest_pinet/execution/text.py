"""Texts of others: JSON is read strictly, and what goes to a terminal, a log or a file is cleaned."""

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


# Colours are harmless, and our own output has them.
_COLOUR = r"\x1b\[[0-9;]{0,20}m"
# Control characters except tab and line feed, marks of writing direction, line separators, lone surrogates.
_DIRTY = re.compile(
    rf"{_COLOUR}|\r\n|([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff])"
)
# GitHub (::error), and Azure and older runners (##[error], ##vso[task...]). GitHub ignores blanks before a command.
_COMMAND = re.compile(r"^([ \t]*):(?=:)|##(?=\[|vso\[)", re.MULTILINE)


def cleaned(text: str) -> str:
    """Return a text in which all characters that a terminal acts on are escaped (``\\x1b``), except colours."""
    # Most texts are clean, which this finds out in a third of the time: a page has millions of characters.
    if text.replace("\n", "").replace("\N{NO-BREAK SPACE}", "").isprintable():
        return text
    return _DIRTY.sub(_escaped, text)


def for_log(text: str) -> str:
    """Return a clean text without commands of CI systems at the beginning of a line."""
    return _COMMAND.sub(lambda match: f"{match[1]}: " if match[1] is not None else "## ", cleaned(text))


def _escaped(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return match[1].encode("unicode_escape", "surrogatepass").decode("ascii")
