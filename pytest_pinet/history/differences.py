"""Describes the build of a measurement, and what differs between the builds and settings of two runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_pinet.execution.grouping import grouped
from pytest_pinet.judge.difference import ABSENT, NOTHING

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
    alike = grouped(zip(names, builds, strict=True))
    differing = {name: _differing(own) if len(own) > 1 else [] for name, own in alike.items()}
    return [_whole_name(name, build, differing[name]) for name, build in zip(names, builds, strict=True)]


def _differing(builds: Iterable[Build]) -> list[str]:
    """Return the keys of which two builds have different values."""
    found = grouped(entry for build in builds for entry in identity(build))
    return [key for key, values in found.items() if len(set(values)) > 1]


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


Settings = Mapping[str, Mapping[str, str]]

DUT = "dut"
# The build of the device under test is compared by itself; see `identity`.
OF_BUILD = ("kernel", "driver", "driver version", "NIC firmware")


def settings_differences(before: Settings, after: Settings) -> tuple[str, ...]:
    """Return the differences, such as ``generic-receive-offload on -> off at pi4b-2``.

    A setting that an end lacks is ``absent`` if the same run recorded it at another end. Else the release of that run
    perhaps did not read the setting, and the setting is not compared. An end that is another interface than before has
    other settings by nature: only settings that both have are compared.
    """
    return tuple(text for _, text in _differences(before, after))


def peer_changes(runs: Sequence[Settings]) -> list[str]:
    """Return what changed at other ends than the device under test since the first of several runs."""
    found = [text for one in runs[1:] for role, text in _differences(runs[0], one) if role != DUT]
    return list(dict.fromkeys(found))


def _differences(before: Settings, after: Settings) -> Iterator[tuple[str, str]]:
    """Yield the role of the end and the text of each difference."""
    known = [{name for own in run.values() for name in own} for run in (before, after)]
    for role in sorted(before.keys() & after.keys()):
        for text in _of_end(role, before[role], after[role], known[0] & known[1]):
            yield role, text


def _of_end(role: str, before: Mapping[str, str], after: Mapping[str, str], known: set[str]) -> Iterator[str]:
    node = after.get("end", role).partition(":")[0]
    same_end = before.get("end") == after.get("end")
    names = before.keys() | after.keys() if same_end else before.keys() & after.keys()
    for name in sorted(names & known):
        old, new = before.get(name, ABSENT), after.get(name, ABSENT)
        if old == new or (role == DUT and name in OF_BUILD):
            continue
        if ABSENT in (old, new) and {*old.split(), *new.split()} <= {ABSENT, *NOTHING}:
            continue
        if name == "end":
            yield f"{role} {old} -> {new}"
        elif name == "command line":
            gone, come = (" ".join(w for w in a.split() if w not in b.split()) for a, b in ((old, new), (new, old)))
            yield f"command line {gone or 'nothing'} -> {come or 'nothing'} at {node}"
        else:
            yield f"{name} {old} -> {new} at {node}"
