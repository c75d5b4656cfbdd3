"""Energy-Efficient Ethernet: the link sleeps between packets."""

from __future__ import annotations

from pytest_pinet.tuning.ethtool import EthtoolSetting, ask, fields
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import SWITCH_FORM, switch


class Eee(EthtoolSetting):
    """EEE on or off. A change makes the link negotiate again."""

    name = parameter = "eee"
    form = SWITCH_FORM
    disruptive = True
    sets = "--set-eee"

    def parse(self, value: object) -> str:
        return switch(value)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        status = fields(ask(place, "--show-eee")).get("EEE status", "")
        if not status.startswith(("enabled", "disabled")):
            raise NoKnob(f"EEE of {place.device} is {status or 'not reported by its driver'}")
        return SettingReading({self.parameter: "on" if status.startswith("enabled") else "off"}, status)

    def effect(self, place: SettingPlace, requested: str) -> str:
        status = self.read(place, requested).text
        return f"the link partner does not use EEE: {status}" if status.endswith("inactive") else ""
