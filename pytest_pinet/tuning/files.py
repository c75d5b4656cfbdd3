"""Knobs that are files of one line, in /proc and /sys: read and written in one remote command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from pytest_pinet.tuning.setting import NoKnob, Place

_MARKS = {"=": True, "!": False}


def read_files(place: Place, patterns: Sequence[str]) -> dict[str, str]:
    """The content of every file that matches, by path. Raises NoKnob where none does or one cannot be read.

    A file that exists may refuse to be read: the XPS mask of a NIC with one queue does.
    """
    found, refused = look_into(place, patterns)
    if refused:
        path, why = next(iter(refused.items()))
        raise NoKnob(f"{path.removeprefix(place.root)} cannot be read: {why}")
    if not found:
        raise NoKnob(f"there is no {patterns[0].removeprefix(place.root)}")
    return found


def look_into(place: Place, patterns: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """What could be read by path, and why the rest could not."""
    files = " ".join(patterns)
    done = place.ask(
        f'for f in {files}; do [ -e "$f" ] || continue;'
        ' if v=$(cat "$f" 2>&1); then echo "= $f $(echo $v)"; else echo "! $f $(echo $v)"; fi; done'
    )
    readable: dict[str, str] = {}
    refused: dict[str, str] = {}
    for line in done.stdout.splitlines():
        mark, _, rest = line.partition(" ")
        path, _, content = rest.partition(" ")
        if mark in _MARKS:
            (readable if _MARKS[mark] else refused)[path] = content if _MARKS[mark] else reason(content)
    return readable, refused


def write_files(contents: Mapping[str, str]) -> str:
    """The command that writes these; by ``tee``, since a shell's own echo calls any refusal an "I/O error"."""
    return " && ".join(
        f"printf %s {shlex.quote(content)} | tee {shlex.quote(path)} >/dev/null" for path, content in contents.items()
    )


def reason(text: str) -> str:
    """``Invalid argument`` of ``tee: /sys/x: Invalid argument``: what a tool says behind all the names."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rpartition(": ")[2].rstrip(".") if lines else "no reason given"
