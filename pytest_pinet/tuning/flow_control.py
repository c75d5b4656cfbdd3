"""Pause frames (IEEE 802.3x): whether the NIC sends them, and whether it obeys them."""

from __future__ import annotations

from pytest_pinet.tuning.ethtool import ask, fields
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import one_of

_WAYS = {"on": ("on", "on"), "off": ("off", "off"), "rx": ("on", "off"), "tx": ("off", "on")}
_KNOBS = {"autoneg": "Autonegotiate", "rx": "RX", "tx": "TX"}


class FlowControl(DeviceSetting):
    """Flow control: with ``rx`` the NIC obeys pause frames, with ``tx`` it sends them. The negotiated result counts."""

    name = "flow_control"
    form = "'on', 'off', 'rx' or 'tx'"
    disruptive = True

    def parse(self, value: object) -> str:
        word = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
        return one_of(word, tuple(_WAYS), self.form)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = fields(ask(place, "-a"))
        values = {word: found[label] for word, label in _KNOBS.items() if label in found}
        if "rx" not in values or "tx" not in values:
            raise NoKnob(f"the driver of {place.device} does not support the pause settings of `ethtool -a`")
        return SettingReading(values, f"rx {values['rx']}, tx {values['tx']}")

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        rx, tx = _WAYS[requested]
        return f"ethtool -A {place.device} rx {rx} tx {tx}"

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        return f"ethtool -A {place.device} " + " ".join(f"{word} {value}" for word, value in before.values.items())

    def holds(self, requested: str, now: SettingReading) -> bool:
        return (now.values["rx"], now.values["tx"]) == _WAYS[requested]

    def effect(self, place: SettingPlace, requested: str) -> str:
        found = fields(ask(place, "-a"))
        agreed = tuple(found.get(f"{way} negotiated") for way in ("RX", "TX"))
        if found.get("Autonegotiate") != "on" or None in agreed or agreed == _WAYS[requested]:
            return ""
        return f"the switch port did not agree: negotiated rx {agreed[0]}, tx {agreed[1]}"
