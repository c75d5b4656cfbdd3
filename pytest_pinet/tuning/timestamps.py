"""TCP timestamps. They take 12 bytes of each segment: 941 instead of 949 Mbit/s on a gigabit link."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.tuning.file_setting import FileSetting
from pytest_pinet.tuning.setting import SettingReading, SettingScope
from pytest_pinet.tuning.values import SWITCH_FORM, switch


class Timestamps(FileSetting):
    """TCP timestamps on all ends: a connection uses them only if both ends do (RFC 7323). Windows normally does not."""

    name = "timestamps"
    form = SWITCH_FORM
    where = SettingScope.ALL_NODES
    disruptive = False
    files = ("/proc/sys/net/ipv4/tcp_timestamps",)

    def parse(self, value: object) -> str:
        return switch(value)

    def wanted(self, requested: str, now: SettingReading) -> Mapping[str, str]:
        # The value 2 also means on, but without the random offset that hides the uptime.
        return {
            path: "0" if requested == "off" else found if found in "12" else "1" for path, found in now.values.items()
        }
