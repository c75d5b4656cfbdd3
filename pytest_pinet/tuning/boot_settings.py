"""Settings that need a boot: of the firmware, the device tree and the kernel command line; and reading them back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_pinet.model.tuning import SettingOutcome, Tuned, Tuning
from pytest_pinet.tuning.file_setting import look_into
from pytest_pinet.tuning.nic_settings import Eee
from pytest_pinet.tuning.registry import boot_setting
from pytest_pinet.tuning.setting import BootLines, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import one_of, shown, whole

_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9._:@=,-]*)?")
# Values of the parameter pci= that enlarge PCIe payloads: per device (perf), or to the largest size that all
# devices support (safe).
_LARGER = ("pcie_bus_perf", "pcie_bus_safe")
_GIGATRANSFERS = {"1": "2.5", "2": "5.0", "3": "8.0"}
_PCI_ADDRESS = re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
# Match within one device of lspci: only its first line is not indented.
_ABLE = re.compile(r"\bDevCap:(?:.*\n\s)*?.*?MaxPayload (\d+) bytes")
_USED = re.compile(r"\bDevCtl:(?:.*\n\s)*?.*?MaxPayload (\d+) bytes")
_BENEATH = re.compile(r"\bBus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2})")

# Keys of ``SettingReading.context``: the value that the setting should change, and the reason why that value
# cannot grow further.
MOVES, AT_END = "moves", "at its end"


class FirmwareSetting:
    """A number in config.txt that ``vcgencmd get_config`` can read back."""

    def __init__(self, name: str, form: str, least: int, most: int) -> None:
        self.name, self.form = name, form
        self._least, self._most = least, most

    def parse(self, value: object) -> str:
        return whole(int(value) if isinstance(value, bool) else value, self.form, self._least, self._most)

    def edit(self, lines: BootLines, requested: str) -> BootLines:
        return lines.with_config(f"{self.name}={requested}")

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
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

    def holds(self, requested: str, now: SettingReading) -> bool:
        return now.values[self.name] == requested


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
    form = "a kernel parameter such as 'pci=pcie_bus_perf', or several, separated by spaces"

    def parse(self, value: object) -> str:
        return _words(value, self.form)

    def edit(self, lines: BootLines, requested: str) -> BootLines:
        return lines.with_parameters(requested.split())

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        words = place.ask(f"cat {place.root}/proc/cmdline").stdout.split()
        there = [word for word in requested.split() if word in words]
        text = " ".join(there) or "not in /proc/cmdline"
        if not any(option in word for word in requested.split() for option in _LARGER):
            return SettingReading({"cmdline": " ".join(there)}, text)
        payloads = _read_payloads(place)
        largest = payloads.most is not None and min(payloads.used.values()) >= payloads.most
        context = {MOVES: str(payloads)} | ({AT_END: "the largest size that all devices support"} if largest else {})
        return SettingReading({"cmdline": " ".join(there)}, f"{text}; {payloads}", context)

    def holds(self, requested: str, now: SettingReading) -> bool:
        return now.values["cmdline"] == requested


@dataclass(frozen=True)
class _Payloads:
    """PCIe payload sizes (MPS) in bytes: ``used`` by each device to the NIC, by address; ``most`` that all support."""

    used: Mapping[str, int]
    most: int | None

    def __str__(self) -> str:
        return "MaxPayload " + ", ".join(f"{size} ({slot})" for slot, size in self.used.items())


def _read_payloads(place: SettingPlace) -> _Payloads:
    """Read the payloads of the NIC, or of its USB controller, and of all bridges above. Raises NoKnob, SshError."""
    slot: str | None = _slot(place)
    devices = _devices(place.change("lspci -D -vv 2>/dev/null").stdout)
    way = {}
    while slot is not None and slot in devices and slot not in way:
        way[slot] = devices[slot]
        slot = _above(slot, devices)
    used = {slot: int(found[1]) for slot, lines in reversed(way.items()) if (found := _USED.search(lines))}
    if not used:
        raise NoKnob(f"cannot read the payload size of PCIe packets to {place.device} (lspci -vv of pciutils, as root)")
    able = [int(found[1]) for lines in way.values() if (found := _ABLE.search(lines))]
    return _Payloads(used, min(able) if len(able) == len(way) else None)


def _slot(place: SettingPlace) -> str:
    """Return the address of the PCIe device nearest to the NIC, from sysfs or from its driver. Raises NoKnob."""
    told = place.ask(
        f"ethtool -i {place.device} 2>/dev/null | grep '^bus-info:'; readlink -f {place.sysfs}/device"
    ).stdout
    found = _PCI_ADDRESS.findall(told)
    if not found:
        raise NoKnob(f"{place.device} is not on PCIe")
    return _full(found[-1])


def _full(address: str) -> str:
    return address if address.count(":") == 2 else f"0000:{address}"


def _devices(text: str) -> dict[str, str]:
    """Return the output of lspci for each device, by address."""
    found: dict[str, str] = {}
    slot = ""
    for line in text.splitlines():
        if (first := _PCI_ADDRESS.match(line)) is not None:
            slot = _full(first.group())
        if slot:
            found[slot] = f"{found.get(slot, '')}{line}\n"
    return found


def _above(slot: str, devices: Mapping[str, str]) -> str | None:
    """Return the bridge to the bus of a device, or None for a device on the first bus."""
    domain, bus, _ = slot.split(":")
    for other, lines in devices.items():
        beneath = _BENEATH.search(lines)
        if beneath is not None and other.partition(":")[0] == domain and beneath[1] == bus:
            return other
    return None


class DeviceTree:
    """Device-tree parameters such as ``dtparam=eee=off``. Only some of them can be read back."""

    name = "dtparam"
    form = "a device-tree parameter such as 'eee=off' or 'pciex1_gen=3', or several, separated by spaces"

    def parse(self, value: object) -> str:
        return _words(value, self.form)

    def edit(self, lines: BootLines, requested: str) -> BootLines:
        # The empty dtoverlay ends the parameters of the previous overlay, so that these go to the base device tree.
        return lines.with_config("dtoverlay=", *(f"dtparam={word}" for word in requested.split()))

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        values = {}
        for word in requested.split():
            name, _, value = word.partition("=")
            reader = _READERS.get(name)
            if reader is None:
                raise NoKnob(f"dtparam {name} is in config.txt, but pinet cannot read back whether it works")
            values[name] = reader(place, value)
        return SettingReading(values, " ".join(f"{name}={value}" for name, value in values.items()))

    def holds(self, requested: str, now: SettingReading) -> bool:
        wanted = dict(word.partition("=")[::2] for word in requested.split())
        return all(now.values[name] == value for name, value in wanted.items())


class PcieGeneration:
    """The speed of the PCIe link of the NIC. A Pi 5 is not certified for generation 3."""

    name = "pcie_gen"
    form = "1, 2 or 3"

    def parse(self, value: object) -> str:
        return one_of(value, tuple(_GIGATRANSFERS), self.form)

    def edit(self, lines: BootLines, requested: str) -> BootLines:
        return lines.with_config("dtoverlay=", "dtparam=pciex1", f"dtparam=pciex1_gen={requested}")

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        generation = _generation(place, requested)
        return SettingReading({self.name: generation}, generation)

    def holds(self, requested: str, now: SettingReading) -> bool:
        return now.values[self.name] == requested


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


def _eee(place: SettingPlace, requested: str) -> str:
    return Eee().read(place, requested).values["eee"]


_READERS: Mapping[str, Callable[[SettingPlace, str], str]] = {"eee": _eee, "pciex1_gen": _generation}

ARM_FREQ = FirmwareSetting("arm_freq", "the processor's clock in MHz such as 2000", 100, 5000)
ARM_BOOST = FirmwareSetting("arm_boost", "0 or 1", 0, 1)
OVER_VOLTAGE = FirmwareSetting("over_voltage", "a step from -16 to 16", -16, 16)
OVER_VOLTAGE_DELTA = FirmwareSetting("over_voltage_delta", "microvolts from -200000 to 200000", -200_000, 200_000)
FORCE_TURBO = FirmwareSetting("force_turbo", "0 or 1", 0, 1)


def lines_of(tuning: Tuning) -> BootLines:
    """Return the lines that these settings add to the boot files."""
    lines = BootLines()
    for name, requested in tuning.settings:
        lines = boot_setting(name).edit(lines, requested)
    return lines


def found(place: SettingPlace, tuning: Tuning) -> dict[str, SettingReading]:
    """Return the present value of each setting that can be read. Raises SshError."""
    readings = {}
    for name, requested in tuning.settings:
        try:
            readings[name] = boot_setting(name).read(place, requested)
        except NoKnob:
            continue
    return readings


def read_back(place: SettingPlace, tuning: Tuning, before: Mapping[str, SettingReading]) -> list[Tuned]:
    """Return the outcome of each setting, after the node has booted with these settings. Raises SshError."""
    return [_judged(place, name, requested, before.get(name)) for name, requested in tuning.settings]


def _judged(place: SettingPlace, name: str, requested: str, before: SettingReading | None) -> Tuned:
    setting = boot_setting(name)
    was = before.text if before is not None else ""
    try:
        now = setting.read(place, requested)
    except NoKnob as error:
        return Tuned(place.node, name, requested, was, "", SettingOutcome.UNSUPPORTED, str(error))
    if setting.holds(requested, now):
        held = before is not None and setting.holds(requested, before)
        outcome, why = (SettingOutcome.UNCHANGED, "") if held else _effect(before, now)
        return Tuned(place.node, name, requested, was, now.text, outcome, why)
    if before is not None and before.values == now.values:
        why = "it is in the boot files, but the boot did not change the value"
        return Tuned(place.node, name, requested, was, now.text, SettingOutcome.REJECTED, why)
    return Tuned(place.node, name, requested, was, now.text, SettingOutcome.CLAMPED)


def _effect(before: SettingReading | None, now: SettingReading) -> tuple[SettingOutcome, str]:
    """Judge a setting that the node booted with, by the value that the setting should change."""
    moved = now.context.get(MOVES)
    if moved is None:
        return SettingOutcome.APPLIED, ""
    if before is None:
        return SettingOutcome.UNCHANGED, f"the value before is not known: {moved}"
    if before.context.get(MOVES) != moved:
        return SettingOutcome.APPLIED, ""
    if end := now.context.get(AT_END):
        return SettingOutcome.UNCHANGED, f"the value was the same before: {moved}, {end}"
    return SettingOutcome.UNSUPPORTED, f"the setting had no effect: {moved}"


def unsupported(node: str, tuning: Tuning, why: str) -> list[Tuned]:
    """Return the outcome "unsupported" for all settings of a node that cannot boot with them."""
    return [
        Tuned(node, name, requested, "", "", SettingOutcome.UNSUPPORTED, why) for name, requested in tuning.settings
    ]
