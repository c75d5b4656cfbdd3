"""Names what differs between the settings of the ends of two runs, and whether only the peer changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Settings = Mapping[str, Mapping[str, str]]

DUT = "dut"
# The build of the device under test is compared by itself; see `history.builds`.
OF_BUILD = ("kernel", "driver", "driver version", "NIC firmware")
ONLY_PEER = "only the peer changed, not the device under test"


def settings_differences(before: Settings, after: Settings, same_dut: bool = True) -> tuple[str, ...]:
    """Return the differences, such as ``generic-receive-offload on -> off at pi4b-2``.

    A value that one side lacks is no difference. ``same_dut``: nothing else of the device under test differs, so that a
    change of its peers alone is pointed out.
    """
    found: list[str] = []
    changed: set[str] = set()
    for role in sorted({*before, *after} & set(before) & set(after)):
        own = list(_of_end(role, before[role], after[role]))
        found += own
        changed |= {role} if own else set()
    if changed and same_dut and DUT not in changed and DUT in before and DUT in after:
        found.append(ONLY_PEER)
    return tuple(found)


def peer_changes(runs: Sequence[Settings]) -> list[str]:
    """Return what changed at other ends than the device under test since the first of several runs."""
    peers = [{role: own for role, own in run.items() if role != DUT} for run in runs]
    return list(dict.fromkeys(text for one in peers[1:] for text in settings_differences(peers[0], one)))


def _of_end(role: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    node = after.get("end", role).partition(":")[0]
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        if old == new or (role == DUT and name in OF_BUILD):
            continue
        if name == "end":
            yield f"{role} {old} -> {new}"
        elif name == "command line":
            gone, come = (" ".join(w for w in a.split() if w not in b.split()) for a, b in ((old, new), (new, old)))
            yield f"command line {gone or 'nothing'} -> {come or 'nothing'} at {node}"
        else:
            yield f"{name} {old} -> {new} at {node}"
