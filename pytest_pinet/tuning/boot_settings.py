"""Settings that need a boot: of the firmware, the device tree and the kernel command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from pytest_pinet.tuning.boot_files import BootFiles
from pytest_pinet.tuning.eee import Eee
from pytest_pinet.tuning.files import look_into
from pytest_pinet.tuning.pcie_payload import read_payloads
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import one_of, shown, whole

_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9._:@=,-]*)?")
# Values of the parameter pci= that enlarge PCIe payloads: per device (perf), or to the largest size that all
# devices support (safe).
_LARGER = ("pcie_bus_perf", "pcie_bus_safe")
_GIGATRANSFERS = {"1": "2.5", "2": "5.0", "3": "8.0"}


# Keys of ``SettingReading.context``: the value that the setting should change, and the reason why that value
# cannot grow further.
MOVES, AT_END = "moves", "at its end"


class BootSetting(Protocol):
    """A setting that edits the boot files. The result is read after the boot."""

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str: ...

    def parse(self, value: object) -> str:
        """Return the value in the form that ids use. Raises ValueError."""

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        """Return the boot files with this setting."""

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        """Read the value that the node booted with. Raises NoKnob if the node does not report the value, SshError."""

    def holds(self, asked: str, now: SettingReading) -> bool:
        """Return whether the node booted with the requested value."""


class FirmwareSetting:
    """A number in config.txt that ``vcgencmd get_config`` can read back."""

    def __init__(self, name: str, form: str, least: int, most: int) -> None:
        self.name, self.form = name, form
        self._least, self._most = least, most

    def parse(self, value: object) -> str:
        return whole(int(value) if isinstance(value, bool) else value, self.form, self._least, self._most)

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        return files.with_config(f"{self.name}={asked}")

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        told = place.change(f"vcgencmd get_config {self.name}").stdout.strip()
        name, equals, value = told.partition("=")
        if name == self.name and equals:
            value = _decimal(value)
            return SettingReading({self.name: value}, value)
        if self.name == "arm_freq":
            # Without vcgencmd, read the highest frequency from the kernel's cpufreq driver.
            readable, _ = look_into(place, [f"{place.root}/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq"])
            for khz in readable.values():
                mhz = f"{int(khz) / 1000:g}"
                return SettingReading({self.name: mhz}, mhz)
        raise NoKnob(f"{place.node} does not report {self.name} ('vcgencmd get_config {self.name}')")

    def holds(self, asked: str, now: SettingReading) -> bool:
        return now.values[self.name] == asked


def _decimal(told: str) -> str:
    """Convert to decimal. The firmware reports some numbers in hexadecimal, and negative numbers in 32 bits."""
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,8}", told):
        return told
    number = int(told, 16)
    return str(number - (1 << 32) if number >> 31 else number)


def _words(value: object, form: str) -> str:
    """Return kernel or device-tree parameters, from a list or a text with spaces. Raises ValueError."""
    words = value.split() if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    if not words or not all(isinstance(word, str) and _PARAMETER.fullmatch(word) for word in words):
        raise ValueError(f"{shown(value)} is not {form}")
    return " ".join(words)


class KernelParameter:
    """One or more parameters of the kernel command line (cmdline.txt), separated by spaces."""

    name = "kernel"
    form = "a kernel parameter such as 'pci=pcie_bus_perf', or several with spaces between"

    def parse(self, value: object) -> str:
        return _words(value, self.form)

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        return files.with_parameters(asked.split())

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        words = place.ask(f"cat {place.root}/proc/cmdline").stdout.split()
        there = [word for word in asked.split() if word in words]
        text = " ".join(there) or "not in /proc/cmdline"
        if not any(option in word for word in asked.split() for option in _LARGER):
            return SettingReading({"cmdline": " ".join(there)}, text)
        payloads = read_payloads(place)
        largest = payloads.most is not None and min(payloads.used.values()) >= payloads.most
        context = {MOVES: str(payloads)} | ({AT_END: "the largest size that all devices support"} if largest else {})
        return SettingReading({"cmdline": " ".join(there)}, f"{text}; {payloads}", context)

    def holds(self, asked: str, now: SettingReading) -> bool:
        return now.values["cmdline"] == asked


class DeviceTree:
    """Device-tree parameters such as ``dtparam=eee=off``. Only some of them can be read back."""

    name = "dtparam"
    form = "a device-tree parameter such as 'eee=off' or 'pciex1_gen=3', or several with spaces between"

    def parse(self, value: object) -> str:
        return _words(value, self.form)

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        # The empty dtoverlay ends the parameters of the previous overlay, so that these go to the base device tree.
        return files.with_config("dtoverlay=", *(f"dtparam={word}" for word in asked.split()))

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        values = {}
        for word in asked.split():
            name, _, value = word.partition("=")
            reader = _READERS.get(name)
            if reader is None:
                raise NoKnob(f"it is in config.txt, but no known value shows whether dtparam {name} works")
            values[name] = reader(place, value)
        return SettingReading(values, " ".join(f"{name}={value}" for name, value in values.items()))

    def holds(self, asked: str, now: SettingReading) -> bool:
        wanted = dict(word.partition("=")[::2] for word in asked.split())
        return all(now.values[name] == value for name, value in wanted.items())


class PcieGeneration:
    """The speed of the PCIe link of the NIC. A Pi 5 is not certified for generation 3."""

    name = "pcie_gen"
    form = "1, 2 or 3"

    def parse(self, value: object) -> str:
        return one_of(value, tuple(_GIGATRANSFERS), self.form)

    def edit(self, files: BootFiles, asked: str) -> BootFiles:
        return files.with_config("dtoverlay=", "dtparam=pciex1", f"dtparam=pciex1_gen={asked}")

    def read(self, place: SettingPlace, asked: str) -> SettingReading:
        generation = _generation(place, asked)
        return SettingReading({self.name: generation}, generation)

    def holds(self, asked: str, now: SettingReading) -> bool:
        return now.values[self.name] == asked


def _generation(place: SettingPlace, _: str) -> str:
    """Return the PCIe generation of the link to the NIC, from the first PCIe device above the NIC. Raises NoKnob."""
    done = place.ask(
        f'p=$(readlink -f {place.sysfs}/device) || exit 0; while [ -n "$p" ] && [ "$p" != / ]; do'
        ' if [ -e "$p/current_link_speed" ]; then cat "$p/current_link_speed"; exit; fi; p=${p%/*}; done'
    )
    # The file holds, for example, "8.0 GT/s PCIe".
    speed = next(iter(done.stdout.split()), "")
    found = next((gen for gen, known in _GIGATRANSFERS.items() if known == speed), None)
    if found is None:
        raise NoKnob(f"{place.device} is not on PCIe" if not speed else f"its PCIe link runs at {speed} GT/s")
    return found


def _eee(place: SettingPlace, asked: str) -> str:
    return Eee().read(place, asked).values["eee"]


_READERS: Mapping[str, Callable[[SettingPlace, str], str]] = {"eee": _eee, "pciex1_gen": _generation}

ARM_FREQ = FirmwareSetting("arm_freq", "the processor's clock in MHz such as 2000", 100, 5000)
ARM_BOOST = FirmwareSetting("arm_boost", "0 or 1", 0, 1)
OVER_VOLTAGE = FirmwareSetting("over_voltage", "a step from -16 to 16", -16, 16)
OVER_VOLTAGE_DELTA = FirmwareSetting("over_voltage_delta", "microvolts from -200000 to 200000", -200_000, 200_000)
FORCE_TURBO = FirmwareSetting("force_turbo", "0 or 1", 0, 1)
