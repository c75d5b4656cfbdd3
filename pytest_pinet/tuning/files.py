"""Reads knobs that are files of one line in /proc and /sys, and makes the command that writes them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from pytest_pinet.execution.shell import reason
from pytest_pinet.tuning.setting import NoKnob, SettingPlace

_MARKS = {"=": True, "!": False}


def read_files(place: SettingPlace, patterns: Sequence[str]) -> dict[str, str]:
    """Return the content of every matching file, by path. Raises NoKnob if none matches or one cannot be read.

    A file that exists can be unreadable, such as the XPS mask of a NIC with one queue.
    """
    found, refused = look_into(place, patterns)
    if refused:
        path, why = next(iter(refused.items()))
        raise NoKnob(f"{path.removeprefix(place.root)} cannot be read: {why}")
    if not found:
        raise NoKnob(f"there is no {patterns[0].removeprefix(place.root)}")
    return found


def look_into(place: SettingPlace, patterns: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the contents of the readable files, and the errors of the other files, both by path."""
    files = " ".join(patterns)
    done = place.ask(
        f'for f in {files}; do [ -e "$f" ] || continue;'
        ' if v=$(cat "$f" 2>/dev/null); then echo "= $f $(echo $v)";'
        ' else echo "! $f $(cat "$f" 2>&1 >/dev/null | tail -n 1)"; fi; done'
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
    """Return the command that writes these files. It uses ``tee``: a shell's echo reports any error as "I/O error"."""
    return " && ".join(
        f"printf %s {shlex.quote(content)} | tee {shlex.quote(path)} >/dev/null" for path, content in contents.items()
    )
