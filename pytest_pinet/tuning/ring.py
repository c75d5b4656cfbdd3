"""The number of descriptors in the rings of a NIC."""

from __future__ import annotations

from pytest_pinet.tuning.ethtool import EthtoolSetting, ask, fields
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import whole

_CURRENT = "Current hardware settings"


class Ring(EthtoolSetting):
    """The ``rx`` or ``tx`` ring. A driver may round the number, and may close and open the device (macb)."""

    form = "a number of descriptors such as 1024"
    disruptive = True
    sets = "-G"

    def __init__(self, way: str) -> None:
        self.name = f"ring_{way}"
        self.parameter = way

    def parse(self, value: object) -> str:
        return whole(value, self.form, 1, 1 << 20)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = fields(ask(place, "-g"), _CURRENT)
        values = {way: found[way.upper()] for way in ("rx", "tx") if way.upper() in found}
        if self.parameter not in values:
            raise NoKnob(f"the driver of {place.device} does not report its {self.parameter} ring")
        return SettingReading(values, values[self.parameter])


RX, TX = Ring("rx"), Ring("tx")
