"""Interrupt coalescing: how long a NIC waits, or for how many frames, before an interrupt."""

from __future__ import annotations

import re

from pytest_pinet.tuning.ethtool import ask, fields
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import switch, whole

# Matches, for example, "Adaptive RX: off  TX: on".
_ADAPTIVE = re.compile(r"^Adaptive RX: (\S+)\s+TX: (\S+)", re.MULTILINE)
_NUMBERS = ("rx-usecs", "tx-usecs", "rx-frames", "tx-frames")
_SWITCHES = ("adaptive-rx", "adaptive-tx")
COALESCING = (*_NUMBERS, *_SWITCHES)


class Coalescing(DeviceSetting):
    """One ``parameter`` of ``ethtool -C``, such as ``rx-usecs``. The undo also restores parameters that the driver
    changed along with it.
    """

    def __init__(self, parameter: str) -> None:
        self.name = parameter.replace("-", "_")
        self._parameter = parameter
        unit = "microseconds" if parameter.endswith("usecs") else "frames"
        self.form = "'on' or 'off'" if parameter in _SWITCHES else f"a number of {unit} such as 64"

    def parse(self, value: object) -> str:
        return switch(value) if self._parameter in _SWITCHES else whole(value, self.form, 0, 1_000_000)

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        output = ask(place, "-c")
        found = {name: value for name, value in fields(output).items() if name in _NUMBERS}
        adaptive = _ADAPTIVE.search(output)
        if adaptive is not None:
            found.update({name: word for name, word in zip(_SWITCHES, adaptive.groups(), strict=True) if word != "n/a"})
        if self._parameter not in found:
            raise NoKnob(f"the driver of {place.device} has no {self._parameter}")
        return SettingReading(found, found[self._parameter])

    def change(self, place: SettingPlace, asked: str, before: SettingReading) -> str:
        return f"ethtool -C {place.device} {self._parameter} {asked}"

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        changed = {
            name: value
            for name, value in before.values.items()
            if name == self._parameter or (after is not None and after.values.get(name) != value)
        }
        return f"ethtool -C {place.device} " + " ".join(f"{name} {value}" for name, value in changed.items())

    def holds(self, asked: str, now: SettingReading) -> bool:
        return now.values[self._parameter] == asked


RX_USECS, TX_USECS, RX_FRAMES, TX_FRAMES, ADAPTIVE_RX, ADAPTIVE_TX = map(Coalescing, COALESCING)
