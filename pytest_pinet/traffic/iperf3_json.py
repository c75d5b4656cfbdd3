"""Read iperf3's JSON strictly: one object; only four keys may repeat; each number is finite and not negative."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import cast

# iperf3 repeats these keys for each stream: clients up to 3.13 (but not target_bitrate), and servers (seen: 3.12,
# 3.18).
_MAY_REPEAT = frozenset({"sock_bufsize", "sndbuf_actual", "rcvbuf_actual", "target_bitrate"})
# More than any link carries; a higher value comes from a broken counter.
BYTES_MAX = 10**18

Json = Mapping[str, object]


class BadJson(ValueError):
    """The text is not the output of a good iperf3 run."""


def load(text: str) -> Json:
    """Parse one object. Raises BadJson, which says in a few words what is wrong."""
    if not text.strip():
        raise BadJson("it is empty")
    if not text.lstrip().startswith("{"):
        raise BadJson(f"it begins with {text.strip()[:60]!r}")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        if "Extra data" in error.msg:
            raise BadJson(f"after the JSON object comes {text[error.pos : error.pos + 60]!r}") from None
        if error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg:
            raise BadJson(f"it ends in the middle, after {len(text)} characters") from None
        raise BadJson(f"line {error.lineno} is not JSON: {text[error.pos : error.pos + 60]!r}") from None
    except RecursionError:
        raise BadJson("it is nested too deeply") from None
    except BadJson:
        raise
    except ValueError as error:  # an integer of more digits than Python reads
        raise BadJson(str(error)) from None
    return cast(Json, value)  # text that begins with { gives an object or an error


def member(value: Json, *path: str) -> Json:
    """Return the object at this path. Raises BadJson."""
    for key in path:
        inner = value.get(key)
        if not isinstance(inner, Mapping):
            raise BadJson(f"it has no object {key!r}")
        value = inner
    return value


def members(value: Json, key: str) -> Sequence[Json]:
    """Return the list of objects under this key. Raises BadJson."""
    inner = value.get(key)
    if not isinstance(inner, list) or not all(isinstance(one, Mapping) for one in inner):
        raise BadJson(f"it has no list {key!r}")
    return inner


def number(value: Json, key: str) -> float:
    """Return a finite number that is not negative. Raises BadJson."""
    inner = value.get(key)
    if isinstance(inner, bool) or not isinstance(inner, int | float):
        raise BadJson(f"it has no number {key!r}")
    if not 0 <= inner <= BYTES_MAX or not math.isfinite(inner):
        raise BadJson(f"{key!r} is {str(inner)[:40]}")
    return float(inner)


def count(value: Json, key: str) -> int:
    """Return a whole number that is not negative. Raises BadJson."""
    inner = number(value, key)
    if inner != int(inner):
        raise BadJson(f"{key!r} is {inner:g}, not a whole number")
    return int(inner)


def lost(total: Json) -> int:
    """Return the lost datagrams of a sum. Raises BadJson.

    The value is below 0 if some arrived twice: for each datagram that arrives after a later one, iperf3 takes back one
    loss. A counter that has overflowed is lower than that.
    """
    key, packets = "lost_packets", count(total, "packets")
    found = total.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise BadJson(f"it has no number {key!r}")
    if found != int(found) or not -packets <= found <= packets:
        raise BadJson(f"{key!r} is {str(found)[:40]} of {packets} datagrams")
    return int(found)


def text(value: Json, key: str) -> str:
    """Return the text under this key. Raises BadJson."""
    inner = value.get(key)
    if not isinstance(inner, str):
        raise BadJson(f"it has no text {key!r}")
    return inner


def _object(pairs: list[tuple[str, object]]) -> Json:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found and key not in _MAY_REPEAT:
            raise BadJson(f"the key {key!r} occurs twice")
        found[key] = value
    return found


def _constant(name: str) -> float:
    raise BadJson(f"a value is {name}")
