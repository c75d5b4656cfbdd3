"""How long a NIC waits, or for how many frames, before it interrupts."""

from __future__ import annotations

import re

from pytest_pinet.tuning.ethtool import ask, fields
from pytest_pinet.tuning.setting import NoKnob, Place, Reading, Where
from pytest_pinet.tuning.values import switch, whole

# Adaptive RX: off  TX: on
_ADAPTIVE = re.compile(r"^Adaptive RX: (\S+)\s+TX: (\S+)", re.MULTILINE)
_NUMBERS = ("rx-usecs", "tx-usecs", "rx-frames", "tx-frames")
_SWITCHES = ("adaptive-rx", "adaptive-tx")
COALESCING = (*_NUMBERS, *_SWITCHES)


class Coalescing:
    """``parameter`` is a word of ``ethtool -C`` such as ``rx-usecs``. Others that change along are put back, too."""

    where = Where.DUT_DEVICE
    disruptive = False

    def __init__(self, parameter: str) -> None:
        self.name = parameter.replace("-", "_")
        self._parameter = parameter
        unit = "microseconds" if parameter.endswith("usecs") else "frames"
        self.form = "'on' or 'off'" if parameter in _SWITCHES else f"a number of {unit} such as 64"

    def parse(self, value: object) -> str:
        return switch(value) if self._parameter in _SWITCHES else whole(value, self.form, 0, 1_000_000)

    def read(self, place: Place, asked: str) -> Reading:
        output = ask(place, "-c")
        found = {name: value for name, value in fields(output).items() if name in _NUMBERS}
        adaptive = _ADAPTIVE.search(output)
        if adaptive is not None:
            found.update({name: word for name, word in zip(_SWITCHES, adaptive.groups(), strict=True) if word != "n/a"})
        if self._parameter not in found:
            raise NoKnob(f"the driver of {place.device} has no {self._parameter}")
        return Reading(found, found[self._parameter])

    def change(self, place: Place, asked: str, before: Reading) -> str:
        return f"ethtool -C {place.device} {self._parameter} {asked}"

    def restore(self, place: Place, before: Reading, after: Reading | None) -> str:
        changed = {
            name: value
            for name, value in before.values.items()
            if name == self._parameter or (after is not None and after.values.get(name) != value)
        }
        return f"ethtool -C {place.device} " + " ".join(f"{name} {value}" for name, value in changed.items())

    def holds(self, asked: str, now: Reading) -> bool:
        return now.values[self._parameter] == asked

    def effect(self, place: Place, asked: str) -> str:
        return ""
