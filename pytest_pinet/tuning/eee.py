"""Energy-Efficient Ethernet: the link sleeps between packets."""

from __future__ import annotations

from pytest_pinet.tuning.ethtool import ask, fields
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import switch

_STATUS = "EEE status"


class Eee(DeviceSetting):
    """EEE on or off. A change makes the link negotiate again."""

    name = "eee"
    form = "'on' or 'off'"
    disruptive = True

    def parse(self, value: object) -> str:
        return switch(value)

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        status = fields(ask(place, "--show-eee")).get(_STATUS, "")
        if not status.startswith(("enabled", "disabled")):
            raise NoKnob(f"EEE of {place.device} is {status or 'not reported by its driver'}")
        return SettingReading({_STATUS: "on" if status.startswith("enabled") else "off"}, status)

    def change(self, place: SettingPlace, asked: str, before: SettingReading) -> str:
        return f"ethtool --set-eee {place.device} eee {asked}"

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        return f"ethtool --set-eee {place.device} eee {before.values[_STATUS]}"

    def holds(self, asked: str, now: SettingReading) -> bool:
        return now.values[_STATUS] == asked

    def effect(self, place: SettingPlace, asked: str) -> str:
        status = self.read(place, asked).text
        return f"the link partner does not use EEE: {status}" if status.endswith("inactive") else ""
