"""Describes the build of a measurement: its short name, and the differences between two builds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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


def names_of(builds: Sequence[Build]) -> list[str]:
    """Return the name of each build. Names that would be equal get what differs: ``6.12.25 r8152 (firmware 2)``.

    Values that a build lacks are no difference.
    """
    names = [name_of(build) for build in builds]
    alike: dict[str, list[Build]] = {}
    for name, build in zip(names, builds, strict=True):
        alike.setdefault(name, []).append(build)
    differing = {name: _differing(own) if len(own) > 1 else [] for name, own in alike.items()}
    return [_whole_name(name, build, differing[name]) for name, build in zip(names, builds, strict=True)]


def _differing(builds: Iterable[Build]) -> list[str]:
    """Return the keys of which two builds have different values."""
    found: dict[str, set[str]] = {}
    for build in builds:
        for key, value in identity(build):
            found.setdefault(key, set()).add(value)
    return [key for key, values in found.items() if len(values) > 1]


def _whole_name(name: str, build: Build, keys: Iterable[str]) -> str:
    parts = [f"{_WORDS.get(key, key.replace('_', ' '))} {value}" for key in keys if (value := build.get(key))]
    return f"{name} ({', '.join(parts)})" if parts else name


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
