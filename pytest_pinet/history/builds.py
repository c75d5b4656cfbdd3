"""Describes the build of a measurement: its short name, and the differences between two builds."""

from __future__ import annotations

from collections.abc import Mapping

Build = Mapping[str, str | None]

# The bus address of a device is not part of a build.
_NO_BUILD = ("bus_info",)
_WORDS = {"uname": "kernel", "driver_version": "driver version"}


def identity(build: Build) -> tuple[tuple[str, str], ...]:
    """Return a build's identity: all values that are known of it."""
    return tuple(sorted((key, value) for key, value in build.items() if value and key not in _NO_BUILD))


def name_of(build: Build) -> str:
    """Return a build's short name for an axis: ``6.12.25-v8+ bcmgenet``; ``unknown`` if nothing is known."""
    parts = [release_of(build.get("uname")), build.get("driver")]
    return " ".join(part for part in parts if part) or "unknown"


def release_of(uname: str | None) -> str | None:
    """Return the kernel's release: ``6.12.25-v8+`` from ``Linux 6.12.25-v8+ #1 SMP ... aarch64``."""
    words = (uname or "").split()
    if len(words) > 1 and words[0] == "Linux":
        return words[1]
    return words[0] if words else None


def differences(before: Build, after: Build) -> tuple[str, ...]:
    """Return the differences, such as ``kernel 6.12.24 -> 6.12.25``. Values that one side lacks are no difference."""
    found = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        if key in _NO_BUILD or not old or not new or old == new:
            continue
        if key == "driver_version" and (old, new) == (release_of(before.get("uname")), release_of(after.get("uname"))):
            # A driver of the kernel's own tree. The kernel's line already shows this difference.
            continue
        if key == "uname" and release_of(old) != release_of(new):
            old, new = release_of(old), release_of(new)
        found.append(f"{_WORDS.get(key, key.replace('_', ' '))} {old} -> {new}")
    return tuple(found)


def is_dirty(build: Build) -> bool:
    """Return whether the build has uncommitted changes: ``-dirty``, as ``setlocalversion`` and git mark it."""
    return any("-dirty" in value for value in build.values() if value)
