"""NIC offloads: segmentation, checksums, merging of packets.

One offload can change others (tso off also turns tso6 off).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_pinet.tuning.ethtool import EthtoolSetting, ask
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import SWITCH_FORM, switch

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
# The kernel's names of these lines. A line may stand for several features.
_OF_KERNEL = {
    "rx-checksumming": "rx-checksum",
    "tx-checksumming": "tx-checksum-*",
    "scatter-gather": "tx-scatter-gather*",
    "tcp-segmentation-offload": "tx-tcp*-segmentation",
    "generic-segmentation-offload": "tx-generic-segmentation",
    "generic-receive-offload": "rx-gro",
    "large-receive-offload": "rx-lro",
    "rx-vlan-offload": "rx-vlan-hw-parse",
    "tx-vlan-offload": "tx-vlan-hw-insert",
    "ntuple-filters": "rx-ntuple-filter",
    "receive-hashing": "rx-hashing",
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


def kernel_feature(name: str) -> str | None:
    """Return the kernel's name of a feature that ``ethtool -K`` knows, short or long; None if there is no such feature.

    It has a ``*`` if the name stands for several features.
    """
    line = next((line for line, short in _SHORT.items() if name == short), name)
    return _OF_KERNEL.get(line, name if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name) else None)


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


class Offload(EthtoolSetting):
    """One offload. ``name`` is its name in ``tuning=`` (``tso``), ``feature`` its line in ``ethtool -k``."""

    form = SWITCH_FORM
    sets = "-K"

    def __init__(self, name: str, feature: str) -> None:
        self.name = name
        self.parameter = feature

    def parse(self, value: object) -> str:
        return switch(value)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = features(ask(place, "-k"))
        own = found.get(self.parameter)
        if own is None:
            raise NoKnob(f"the driver of {place.device} does not report {self.parameter}")
        if own.fixed and own.state != requested:
            raise NoKnob(f"{self.parameter} of {place.device} is always {own.state} ([fixed])")
        # Fixed features never change. A group changes with the features in it.
        others = {name: f.state for name, f in found.items() if not (f.fixed or f.group)}
        # The group first, so that an undo writes the values of its features last, and they stay.
        return SettingReading({self.parameter: own.state} | others, own.state)

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        different = {n: v for n, v in before.values.items() if after is None or after.values.get(n) != v}
        if self.parameter in different:
            # A group that is written also sets features that were off before and after. So all are written after it.
            different = dict(before.values)
        return self._command(place, different) if different else "true"

    def word(self, name: str) -> str:
        return _SHORT.get(name, name)


TSO, GSO, GRO, LRO, SG, RX_CHECKSUM, TX_CHECKSUM, RX_HASH = (Offload(*one) for one in OFFLOADS.items())
