"""The clock of the processor of a running node: governor, lowest and highest frequency."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_pinet.tuning.file_setting import FileSetting
from pytest_pinet.tuning.setting import SettingPlace, SettingReading, SettingScope
from pytest_pinet.tuning.values import shown

_POLICIES = "/sys/devices/system/cpu/cpufreq/policy*"
_FREQUENCY = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?)\s*(MHz|GHz|M|G)?", re.IGNORECASE)


class Governor(FileSetting):
    """The cpufreq governor, which chooses the clock: ``performance``, ``ondemand``, ``schedutil`` ..."""

    name = "governor"
    form = "the name of a governor such as 'performance' or 'ondemand'"
    where = SettingScope.DUT_NODE
    files = (f"{_POLICIES}/scaling_governor",)


class ScalingFrequency(FileSetting):
    """The lower or upper bound of the clock, in MHz. The kernel clamps the bound to what the chip supports."""

    form = "a frequency such as 1500 or '1.5GHz' (MHz without a unit)"
    where = SettingScope.DUT_NODE

    def __init__(self, bound: str) -> None:
        self.name = f"scaling_{bound}_freq"
        self.files = (f"{_POLICIES}/{self.name}",)

    def parse(self, value: object) -> str:
        match = _FREQUENCY.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
        mhz = float(match[1]) * (1000 if (match[2] or "").lower().startswith("g") else 1) if match else 0.0
        if not 1 <= mhz <= 10_000:
            raise ValueError(f"{shown(value)} is not {self.form}")
        return f"{mhz:g}"

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        reading = super().read(place, requested)
        mhz = [f"{int(khz) / 1000:g}" if khz.isdigit() else khz for khz in dict.fromkeys(reading.values.values())]
        return SettingReading(reading.values, ", ".join(mhz) + " MHz")

    def wanted(self, requested: str, now: SettingReading) -> Mapping[str, str]:
        return dict.fromkeys(now.values, str(round(float(requested) * 1000)))


MAX, MIN = ScalingFrequency("max"), ScalingFrequency("min")
