"""The number of descriptors in the rings of a NIC."""

from __future__ import annotations

from pytest_pinet.tuning.ethtool import ask, fields
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import whole

_CURRENT = "Current hardware settings"
_WAYS = ("rx", "tx")


class Ring(DeviceSetting):
    """The ``rx`` or ``tx`` ring. A driver may round the number, and may close and open the device (macb)."""

    form = "a number of descriptors such as 1024"
    disruptive = True

    def __init__(self, way: str) -> None:
        self.name = f"ring_{way}"
        self._way = way

    def parse(self, value: object) -> str:
        return whole(value, self.form, 1, 1 << 20)

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        found = fields(ask(place, "-g"), _CURRENT)
        values = {way: found[way.upper()] for way in _WAYS if way.upper() in found}
        if self._way not in values:
            raise NoKnob(f"the driver of {place.device} does not report its {self._way} ring")
        return SettingReading(values, values[self._way])

    def change(self, place: SettingPlace, asked: str, before: SettingReading) -> str:
        return f"ethtool -G {place.device} {self._way} {asked}"

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        changed = {
            w: n for w, n in before.values.items() if after is None or after.values.get(w) != n or w == self._way
        }
        return f"ethtool -G {place.device} " + " ".join(f"{way} {number}" for way, number in changed.items())

    def holds(self, asked: str, now: SettingReading) -> bool:
        return now.values[self._way] == asked


RX, TX = Ring("rx"), Ring("tx")
