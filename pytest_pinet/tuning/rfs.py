"""Receive flow steering: a packet goes to the CPU on which the program runs that reads its flow."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.tuning.file_setting import FileSetting
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import whole

_GLOBAL = "rps_sock_flow_entries"


class Rfs(FileSetting):
    """The number of remembered flows, divided equally among the receive queues (kernel: scaling.rst). 0 is off."""

    name = "rfs"
    form = "'off' or a number of flows such as 32768"
    files = (f"/proc/sys/net/core/{_GLOBAL}", "queues/rx-*/rps_flow_cnt")

    def parse(self, value: object) -> str:
        return "off" if value is False or str(value) in ("off", "0") else whole(value, self.form, 1, 1 << 22)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        found = super().read(place, requested)
        tables = [path for path in found.values if path.endswith(_GLOBAL)]
        if not tables:
            raise NoKnob(
                f"flow steering needs net.core.{_GLOBAL}, which is missing: the kernel has no CONFIG_RPS, or "
                f"{place.node} is not the first network namespace"
            )
        if len(tables) == len(found.values):
            raise NoKnob(f"{place.device} has no receive queue with rps_flow_cnt")
        return found

    def wanted(self, requested: str, now: SettingReading) -> Mapping[str, str]:
        flows = 0 if requested == "off" else int(requested)
        queues = sum(not path.endswith(_GLOBAL) for path in now.values)
        return {path: str(flows if path.endswith(_GLOBAL) else flows // queues) for path in now.values}

    def same(self, wanted: str, found: str) -> bool:
        # The kernel rounds up to a power of 2.
        number = int(wanted)
        return found in (wanted, str(1 << (number - 1).bit_length() if number else 0))
