"""Settings that take a boot: of the firmware, the device tree and the kernel's command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from pytest_pinet.tuning.boot_files import BootFiles
from pytest_pinet.tuning.eee import Eee
from pytest_pinet.tuning.files import look_into
from pytest_pinet.tuning.pcie_payload import read_payloads
from pytest_pinet.tuning.setting import NoKnob, Place, Reading
from pytest_pinet.tuning.values import one_of, shown, whole

_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9._:@=,-]*)?")
# What of pci= is to enlarge payloads: of each device on its own, and to what all of them can.
_LARGER = ("pcie_bus_perf", "pcie_bus_safe")
_GIGATRANSFERS = {"1": "2.5", "2": "5.0", "3": "8.0"}


# In the context of a reading: what the setting is to change beside itself, and, where that can change no further, why.
MOVES, AT_END = "moves", "at its end"


class BootSetting(Protocol):
    """Edits the boot files; what came of it is read after the boot."""

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str: ...

    def parse(self, value: object) -> str:
        """The value as the id has it. Raises ValueError."""

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        """The boot files with this setting."""

    def read(self, place: Place, asked: str) -> Reading:
        """What the node booted with. Raises NoKnob where nothing tells, SshError."""

    def holds(self, asked: str, now: Reading) -> bool:
        """Whether it booted with what was asked for."""


class Firmware:
    """A number in config.txt that ``vcgencmd get_config`` tells again."""

    def __init__(self, name: str, form: str, least: int, most: int) -> None:
        self.name, self.form = name, form
        self._least, self._most = least, most

    def parse(self, value: object) -> str:
        return whole(int(value) if isinstance(value, bool) else value, self.form, self._least, self._most)

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        return files.with_config(f"{self.name}={asked}")

    def read(self, place: Place, asked: str) -> Reading:
        told = place.change(f"vcgencmd get_config {self.name}").stdout.strip()
        name, equals, value = told.partition("=")
        if name == self.name and equals:
            value = _decimal(value)
            return Reading({self.name: value}, value)
        if self.name == "arm_freq":
            # Without the firmware's tool the kernel's driver tells what it may use.
            readable, _ = look_into(place, [f"{place.root}/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq"])
            for khz in readable.values():
                mhz = f"{int(khz) / 1000:g}"
                return Reading({self.name: mhz}, mhz)
        raise NoKnob(f"nothing tells {self.name} on {place.node} ('vcgencmd get_config {self.name}')")

    def holds(self, asked: str, now: Reading) -> bool:
        return now.values[self.name] == asked


def _decimal(told: str) -> str:
    """The firmware tells some numbers in hexadecimal, negative ones as 32 bits."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,8}", told):
        return told
    number = int(told, 16)
    return str(number - (1 << 32) if number >> 31 else number)


def _words(value: object, form: str) -> str:
    """Parameters, parted by spaces or in a list. Raises ValueError."""
    words = value.split() if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    if not words or not all(isinstance(word, str) and _PARAMETER.fullmatch(word) for word in words):
        raise ValueError(f"{shown(value)} is not {form}")
    return " ".join(words)


class KernelParameter:
    """One word of cmdline.txt, or several parted by spaces."""

    name = "kernel"
    form = "a kernel parameter such as 'pci=pcie_bus_perf', or several with spaces between"

    def parse(self, value: object) -> str:
        return _words(value, self.form)

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        return files.with_parameters(asked.split())

    def read(self, place: Place, asked: str) -> Reading:
        words = place.ask(f"cat {place.root}/proc/cmdline").stdout.split()
        there = [word for word in asked.split() if word in words]
        text = " ".join(there) or "not in /proc/cmdline"
        if not any(option in word for word in asked.split() for option in _LARGER):
            return Reading({"cmdline": " ".join(there)}, text)
        payloads = read_payloads(place)
        largest = payloads.most is not None and min(payloads.used.values()) >= payloads.most
        context = {MOVES: str(payloads)} | ({AT_END: "the most that all of them can"} if largest else {})
        return Reading({"cmdline": " ".join(there)}, f"{text}; {payloads}", context)

    def holds(self, asked: str, now: Reading) -> bool:
        return now.values["cmdline"] == asked


class DeviceTree:
    """``dtparam=eee=off`` and its like; what can be told of it depends on the parameter."""

    name = "dtparam"
    form = "a device-tree parameter such as 'eee=off' or 'pciex1_gen=3', or several with spaces between"

    def parse(self, value: object) -> str:
        return _words(value, self.form)

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        # An empty dtoverlay ends the parameters of the overlay above: these are the base's.
        return files.with_config("dtoverlay=", *(f"dtparam={word}" for word in asked.split()))

    def read(self, place: Place, asked: str) -> Reading:
        values = {}
        for word in asked.split():
            name, _, value = word.partition("=")
            reader = _READERS.get(name)
            if reader is None:
                raise NoKnob(f"it is in config.txt, and nothing known tells whether dtparam {name} works")
            values[name] = reader(place, value)
        return Reading(values, " ".join(f"{name}={value}" for name, value in values.items()))

    def holds(self, asked: str, now: Reading) -> bool:
        wanted = dict(word.partition("=")[::2] for word in asked.split())
        return all(now.values[name] == value for name, value in wanted.items())


class PcieGeneration:
    """The speed of the PCIe link of the NIC; 3 is more than a Pi 5 is certified for."""

    name = "pcie_gen"
    form = "1, 2 or 3"

    def parse(self, value: object) -> str:
        return one_of(value, tuple(_GIGATRANSFERS), self.form)

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        return files.with_config("dtoverlay=", "dtparam=pciex1", f"dtparam=pciex1_gen={asked}")

    def read(self, place: Place, asked: str) -> Reading:
        generation = _generation(place, asked)
        return Reading({self.name: generation}, generation)

    def holds(self, asked: str, now: Reading) -> bool:
        return now.values[self.name] == asked


def _generation(place: Place, _: str) -> str:
    """What the link to the NIC runs at: that of the first PCIe device above it. Raises NoKnob."""
    done = place.ask(
        f'p=$(readlink -f {place.sysfs}/device) || exit 0; while [ -n "$p" ] && [ "$p" != / ]; do'
        ' if [ -e "$p/current_link_speed" ]; then cat "$p/current_link_speed"; exit; fi; p=${p%/*}; done'
    )
    # 8.0 GT/s PCIe
    speed = next(iter(done.stdout.split()), "")
    found = next((gen for gen, known in _GIGATRANSFERS.items() if known == speed), None)
    if found is None:
        raise NoKnob(f"{place.device} is not on PCIe" if not speed else f"its PCIe link runs at {speed} GT/s")
    return found


def _eee(place: Place, asked: str) -> str:
    return Eee().read(place, asked).values["EEE status"]


_READERS: Mapping[str, Callable[[Place, str], str]] = {"eee": _eee, "pciex1_gen": _generation}

BOOT_SETTINGS: Mapping[str, BootSetting] = {
    setting.name: setting
    for setting in (
        Firmware("arm_freq", "the processor's clock in MHz such as 2000", 100, 5000),
        Firmware("arm_boost", "0 or 1", 0, 1),
        Firmware("over_voltage", "a step from -16 to 16", -16, 16),
        Firmware("over_voltage_delta", "microvolts from -200000 to 200000", -200_000, 200_000),
        Firmware("force_turbo", "0 or 1", 0, 1),
        DeviceTree(),
        PcieGeneration(),
        KernelParameter(),
    )
}
