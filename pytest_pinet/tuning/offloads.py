"""Work that a NIC takes over: segmentation, checksums, merging of packets.

One may change others (without tso there is no tso6), so the whole list is read before and after, and what differs is
put back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_pinet.tuning.ethtool import ask
from pytest_pinet.tuning.setting import NoKnob, Place, Reading, Where
from pytest_pinet.tuning.values import switch

# generic-receive-offload: on [fixed]; an indented line is a part of the one above.
_LINE = re.compile(r"^(\t?) *([\w-]+): (on|off)((?: \[[^\]]+\])*)\s*$", re.MULTILINE)
# What -K calls those that have no parts.
_SHORT = {
    "rx-checksumming": "rx",
    "tx-checksumming": "tx",
    "scatter-gather": "sg",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
    "rx-vlan-offload": "rxvlan",
    "tx-vlan-offload": "txvlan",
    "ntuple-filters": "ntuple",
    "receive-hashing": "rxhash",
}
# By the names of the axis.
OFFLOADS = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
    "sg": "scatter-gather",
    "rx_checksum": "rx-checksumming",
    "tx_checksum": "tx-checksumming",
    "rx_hash": "receive-hashing",
}


@dataclass(frozen=True)
class _Feature:
    """A line of ``ethtool -k``; ``group``: it has parts, which are what really is on or off."""

    state: str
    fixed: bool
    group: bool


def features(output: str) -> dict[str, _Feature]:
    """All lines of ``ethtool -k``."""
    lines = _LINE.findall(output)
    found = {}
    for number, (indent, name, state, marks) in enumerate(lines):
        group = not indent and number + 1 < len(lines) and bool(lines[number + 1][0])
        found[name] = _Feature(state, "[fixed]" in marks, group)
    return found


class Offload:
    """``name`` is the axis's word (``tso``), ``feature`` the line of ``ethtool -k``."""

    form = "'on' or 'off'"
    where = Where.DUT_DEVICE
    disruptive = False

    def __init__(self, name: str, feature: str) -> None:
        self.name = name
        self._feature = feature

    def parse(self, value: object) -> str:
        return switch(value)

    def read(self, place: Place, asked: str) -> Reading:
        found = features(ask(place, "-k"))
        own = found.get(self._feature)
        if own is None:
            raise NoKnob(f"the driver of {place.device} tells nothing of {self._feature}")
        if own.fixed and own.state != asked:
            raise NoKnob(f"{self._feature} of {place.device} is always {own.state} ([fixed])")
        # Fixed ones never change; a group is changed by its parts.
        values = {name: f.state for name, f in found.items() if name == self._feature or not (f.fixed or f.group)}
        return Reading(values, own.state)

    def change(self, place: Place, asked: str, before: Reading) -> str:
        return f"ethtool -K {place.device} {_SHORT[self._feature]} {asked}"

    def restore(self, place: Place, before: Reading, after: Reading | None) -> str:
        changed = {n: v for n, v in before.values.items() if after is None or after.values.get(n) != v}
        # The group first: its parts have the last word.
        order = sorted(changed, key=lambda name: name != self._feature)
        words = [f"{_SHORT.get(name, name)} {changed[name]}" for name in order]
        return f"ethtool -K {place.device} {' '.join(words)}" if words else "true"

    def holds(self, asked: str, now: Reading) -> bool:
        return now.values[self._feature] == asked

    def effect(self, place: Place, asked: str) -> str:
        return ""
