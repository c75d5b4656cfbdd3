"""The common part of RPS and XPS: a mask of CPUs for each queue of a NIC."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.tuning.file_setting import ONLINE, FileSetting
from pytest_pinet.tuning.files import read_files
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import CPUS_FORM, cpu_list, cpus, mask_of, read_mask, write_mask

_ONLINE = "online"


class QueueMask(FileSetting):
    """A setting of CPU masks."""

    form = CPUS_FORM

    def parse(self, value: object) -> str:
        return cpus(value)

    def same(self, wanted: str, found: str) -> bool:
        try:
            return read_mask(wanted) == read_mask(found)
        except ValueError:
            return False

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        masks = read_files(place, self.patterns(place))
        (online,) = read_files(place, [f"{place.root}{ONLINE}"]).values()
        text = " ".join(dict.fromkeys(write_mask(read_mask(mask)) or "0" for mask in masks.values()))
        return SettingReading(masks, text, {_ONLINE: online})

    def wanted(self, requested: str, now: SettingReading) -> Mapping[str, str]:
        mask = mask_of(requested, cpu_list(now.context[_ONLINE]))
        return dict.fromkeys(now.values, write_mask(mask) or "0")


class Rps(QueueMask):
    """Receive packet steering: the CPUs that may process packets of a receive queue."""

    name = "rps"
    files = ("queues/rx-*/rps_cpus",)

    def effect(self, place: SettingPlace, requested: str) -> str:
        if requested == "off":
            return ""
        (online,) = read_files(place, [f"{place.root}{ONLINE}"]).values()
        return "there is only one CPU, so packets cannot be steered" if len(cpu_list(online)) == 1 else ""


class Xps(QueueMask):
    """Transmit packet steering: the CPUs that use a transmit queue."""

    name = "xps"
    files = ("queues/tx-*/xps_cpus",)

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        queues = place.ask(f"ls -d {place.sysfs}/queues/tx-*").stdout.split()
        if not queues:
            raise NoKnob(f"{place.device} has no tx queues in /sys")
        if len(queues) == 1:
            # With one queue the file exists, but every write to it fails (ENOENT).
            raise NoKnob(f"{place.device} has one transmit queue, so there is no queue to choose")
        return super().read(place, requested)
