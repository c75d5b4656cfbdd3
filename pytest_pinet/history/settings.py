"""Names what differs between the settings of the ends of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_pinet.judge.suspected_causes import ABSENT, NOTHING

Settings = Mapping[str, Mapping[str, str]]

DUT = "dut"
# The build of the device under test is compared by itself; see `history.builds`.
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
