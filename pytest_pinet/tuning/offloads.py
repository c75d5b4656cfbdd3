"""NIC offloads: segmentation, checksums, merging of packets.

One offload can change others (tso off also turns tso6 off). So the whole list is read before and after, and the undo
restores every difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_pinet.tuning.ethtool import ask
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import switch

# Matches, for example, "generic-receive-offload: on [fixed]". An indented line belongs to the group above it.
_LINE = re.compile(r"^(\t?) *([\w-]+): (on|off)((?: \[[^\]]+\])*)\s*$", re.MULTILINE)
# Short names of ``ethtool -K`` for the lines of ``ethtool -k``.
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
# The line of ``ethtool -k`` for each name in ``tuning=``.
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
    """A line of ``ethtool -k``. ``group`` means that the features below this line hold the real state."""

    state: str
    fixed: bool
    group: bool


def features(output: str) -> dict[str, _Feature]:
    """Parse all lines of ``ethtool -k``."""
    lines = _LINE.findall(output)
    found = {}
    for number, (indent, name, state, marks) in enumerate(lines):
        group = not indent and number + 1 < len(lines) and bool(lines[number + 1][0])
        found[name] = _Feature(state, "[fixed]" in marks, group)
    return found


class Offload(DeviceSetting):
    """One offload. ``name`` is its name in ``tuning=`` (``tso``), ``feature`` its line in ``ethtool -k``."""

    form = "'on' or 'off'"

    def __init__(self, name: str, feature: str) -> None:
        self.name = name
        self._feature = feature

    def parse(self, value: object) -> str:
        return switch(value)

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        found = features(ask(place, "-k"))
        own = found.get(self._feature)
        if own is None:
            raise NoKnob(f"the driver of {place.device} does not report {self._feature}")
        if own.fixed and own.state != asked:
            raise NoKnob(f"{self._feature} of {place.device} is always {own.state} ([fixed])")
        # Fixed features never change. A group changes with the features in it.
        values = {name: f.state for name, f in found.items() if name == self._feature or not (f.fixed or f.group)}
        return SettingReading(values, own.state)

    def change(self, place: SettingPlace, asked: str, before: SettingReading) -> str:
        return f"ethtool -K {place.device} {_SHORT[self._feature]} {asked}"

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        changed = {n: v for n, v in before.values.items() if after is None or after.values.get(n) != v}
        # The group first, so that the values of its features are written last and stay.
        order = sorted(changed, key=lambda name: name != self._feature)
        words = [f"{_SHORT.get(name, name)} {changed[name]}" for name in order]
        return f"ethtool -K {place.device} {' '.join(words)}" if words else "true"

    def holds(self, asked: str, now: SettingReading) -> bool:
        return now.values[self._feature] == asked


TSO, GSO, GRO, LRO, SG, RX_CHECKSUM, TX_CHECKSUM, RX_HASH = (Offload(*one) for one in OFFLOADS.items())
