"""Mangles the content of a file: its bytes, its lines, or the values of its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

# Numbers, characters and structures that readers seldom see.
TOKENS = (
    b"nan",
    b"-Infinity",
    b"1e999",
    b"9" * 400,
    b"-1",
    b"0",
    b"1:1:1:1",
    b"\\ud800",
    b"\xff\xfe",
    b"\0",
    b"\r",
    b"\x1b[2J",
    b"\xe2\x80\xa8",
    b"\xe2\x80\xae",
    b"[" * 3000,
    b"{" * 200,
    b'"',
    b"'",
    b"&a *a",
    b"!template $X",
    b"!!python/object:x",
    b"<<: *a",
    b"---\n",
    b"- ",
    b": ",
    b"\t",
    b"%s{0}$(x)`x`",
    b"../../x",
    b"::error::x",
    b"1-1-1-1-1-1-1-1-1",
    b" " * 500,
    b"null",
    b"true",
    b"0x" + b"f" * 300,
    b"2001-01-01T00:00:00+25:00",
    b"0001-01-01T00:00:00+23:00",
)
VALUES: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    10**30,
    -(10**400),
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "9" * 5000,
    [],
    {},
    [[]],
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    {"a": {"b": []}},
    "pass",
    [1, 2],
    -0.0,
)


@st.composite
def mangled(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """Return a sample with one to five edits."""
    data = draw(st.sampled_from(samples))
    if draw(st.booleans()):
        data = _with_values(draw, data)
    for _ in range(draw(st.integers(0, 5))):
        data = _edited(draw, data)
    return data


def _edited(draw: st.DrawFn, data: bytes) -> bytes:
    start = draw(st.integers(0, len(data)))
    end = min(len(data), start + draw(st.sampled_from((0, 1, 4, 40, 4000))))
    kind = draw(st.sampled_from(("token", "bytes", "repeat", "cut", "end", "swap")))
    if kind == "token":
        new = draw(st.sampled_from(TOKENS))
    elif kind == "bytes":
        new = draw(st.binary(max_size=8))
    elif kind == "repeat":
        new = data[start:end] * draw(st.sampled_from((2, 50)))
    elif kind == "swap":
        other = draw(st.integers(0, len(data)))
        new = data[other : other + end - start]
    elif kind == "end":
        return data[:start]
    else:
        new = b""
    return (data[:start] + new + data[end:])[: 2**20]


def _with_values(draw: st.DrawFn, data: bytes) -> bytes:
    """Replace a value of JSON, or of one line of JSON lines; other data stay."""
    lines = data.splitlines(keepends=True)
    at = draw(st.integers(0, len(lines) - 1)) if lines and data[:1] == b"{" and b"}\n{" in data else None
    try:
        value = json.loads(data if at is None else lines[at])
    except (ValueError, RecursionError):
        return data
    inner = value
    for _ in range(draw(st.integers(0, 8))):
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner))) if isinstance(inner, list) else []
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if isinstance(inner[key], dict | list) and inner[key] and draw(st.integers(0, 3)):
            inner = inner[key]
        else:
            inner[key] = draw(st.sampled_from(VALUES))
            break
    text = json.dumps(value).encode("ascii")
    return text if at is None else b"".join([*lines[:at], text + b"\n", *lines[at + 1 :]])
