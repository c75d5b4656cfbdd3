"""Interrupt coalescing: how long a NIC waits, or for how many frames, before an interrupt."""

from __future__ import annotations

import re

from pytest_pinet.tuning.ethtool import EthtoolSetting, ask, fields
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import switch, whole

# Matches, for example, "Adaptive RX: off  TX: on".
_ADAPTIVE = re.compile(r"^Adaptive RX: (\S+)\s+TX: (\S+)", re.MULTILINE)
_NUMBERS = ("rx-usecs", "tx-usecs", "rx-frames", "tx-frames")
_SWITCHES = ("adaptive-rx", "adaptive-tx")
COALESCING = (*_NUMBERS, *_SWITCHES)


class Coalescing(EthtoolSetting):
    """One ``parameter`` of ``ethtool -C``, such as ``rx-usecs``."""

    sets = "-C"
    # The undo that is prepared before the change sets only this parameter: a driver refuses parameters that it does
    # not have, even with the values that it shows.
    undoes_all = False

    def __init__(self, parameter: str) -> None:
        self.name = parameter.replace("-", "_")
        self.parameter = parameter
        unit = "microseconds" if parameter.endswith("usecs") else "frames"
        self.form = "'on' or 'off'" if parameter in _SWITCHES else f"a number of {unit} such as 64"

    def parse(self, value: object) -> str:
        return switch(value) if self.parameter in _SWITCHES else whole(value, self.form, 0, 1_000_000)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        output = ask(place, "-c")
        found = {name: value for name, value in fields(output).items() if name in _NUMBERS}
        adaptive = _ADAPTIVE.search(output)
        if adaptive is not None:
            found.update({name: word for name, word in zip(_SWITCHES, adaptive.groups(), strict=True) if word != "n/a"})
        if self.parameter not in found:
            raise NoKnob(f"the driver of {place.device} has no {self.parameter}")
        return SettingReading(found, found[self.parameter])


RX_USECS, TX_USECS, RX_FRAMES, TX_FRAMES, ADAPTIVE_RX, ADAPTIVE_TX = map(Coalescing, COALESCING)
