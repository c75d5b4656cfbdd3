"""Settings of the processor: which CPUs handle packets and interrupts, and its clock."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_pinet.execution.nic_interrupts import interrupts_script, parse_interrupts
from pytest_pinet.tuning.file_setting import ONLINE, FileSetting, look_into, read_files, write_files
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading, SettingScope
from pytest_pinet.tuning.values import CPUS_FORM, cpu_list, cpus, mask_of, read_mask, shown, text, whole, write_mask

_ONLINE = "online"


class QueueMask(FileSetting):
    """The common part of RPS and XPS: a mask of CPUs for each queue of a NIC."""

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


_GLOBAL = "rps_sock_flow_entries"


class Rfs(FileSetting):
    """Receive flow steering: a packet goes to the CPU on which the program runs that reads its flow.

    The value is the number of remembered flows, divided equally among the receive queues (kernel: scaling.rst).
    """

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


_SPREAD = "spread"
_BALANCER = "irqbalance"
_MASK = "/smp_affinity_list"


class IrqAffinity(DeviceSetting):
    """Interrupt affinity: ``2`` sends all interrupts to CPU 2; several CPUs take turns; ``spread`` uses all CPUs.

    A USB NIC uses the interrupts of its USB host controller. ``irqbalance`` is stopped, because it would move the
    interrupts back. The effective affinity counts: some interrupt controllers (GICv2) deliver to one CPU of a mask,
    and others reject the mask.
    """

    name = "irq"
    form = "'spread', a CPU such as 2, or CPUs that take turns such as '2,3'"

    def parse(self, value: object) -> str:
        written = text(value, self.form)
        if written != _SPREAD:
            try:
                cpu_list(written)
            except ValueError:
                raise ValueError(f"{shown(value)} is not {self.form}") from None
        return written

    def read(self, place: SettingPlace, requested: str) -> SettingReading:
        numbers = parse_interrupts(place.ask(interrupts_script(place.device, place.root)).stdout)
        if not numbers:
            raise NoKnob(f"no interrupt in /proc/interrupts belongs to {place.device}")
        folder = f"{place.root}/proc/irq"
        asked_for, refused = look_into(place, [f"{folder}/{number}{_MASK}" for number in numbers])
        effective, _ = look_into(place, [f"{folder}/{number}/effective_affinity_list" for number in numbers])
        if refused or not asked_for:
            raise NoKnob(f"the affinity of interrupts {', '.join(numbers)} cannot be read")
        (online,) = read_files(place, [f"{place.root}{ONLINE}"]).values()
        # pidof can miss an irqbalance that has just started: the process might not have its name yet.
        runs = f"{{ pidof {_BALANCER} || systemctl is-active --quiet {_BALANCER}; }} >/dev/null 2>&1"
        balancer = place.ask(f"{runs} && echo on").stdout.strip()
        now = [f"{_number(p)}: {effective.get(_effective(p)) or v}" for p, v in asked_for.items()]
        # While irqbalance runs, it chooses the masks. The undo then only has to start irqbalance again.
        values = {_BALANCER: balancer} if balancer else {_BALANCER: "", **asked_for}
        return SettingReading(values, ", ".join(now), {**asked_for, **effective, _ONLINE: online})

    def change(self, place: SettingPlace, requested: str, before: SettingReading) -> str:
        stop = f"systemctl stop {_BALANCER}; " if before.values[_BALANCER] else ""
        return stop + write_files(self._wanted(requested, before))

    def restore(self, place: SettingPlace, before: SettingReading, after: SettingReading | None) -> str:
        # Some interrupt controllers reject every mask, even the present one. So only changed masks are written.
        masks = write_files({p: m for p, m in _masks(before).items() if after is None or after.context.get(p) != m})
        if not before.values[_BALANCER]:
            return masks
        masks = masks or "true"
        # irqbalance is started even if a mask is rejected.
        return f"{{ {masks}; r=$?; systemctl start {_BALANCER} && [ $r = 0 ]; }}"

    def holds(self, requested: str, now: SettingReading) -> bool:
        if now.values[_BALANCER]:
            return False
        for path, cpu in self._wanted(requested, now).items():
            # Kernels before 4.13 do not report the effective affinity.
            found = now.context.get(_effective(path)) or now.context[path]
            if found != cpu:
                return False
        return True

    @staticmethod
    def _wanted(requested: str, now: SettingReading) -> dict[str, str]:
        cpus = cpu_list(now.context[_ONLINE] if requested == _SPREAD else requested)
        paths = sorted(_masks(now), key=_number)
        return {path: str(cpus[index % len(cpus)]) for index, path in enumerate(paths)}


def _masks(reading: SettingReading) -> dict[str, str]:
    """Return the configured affinity of each interrupt, by the path of its file."""
    return {path: mask for path, mask in reading.context.items() if path.endswith(_MASK)}


def _number(path: str) -> int:
    return int(path.split("/")[-2])


def _effective(path: str) -> str:
    return path.removesuffix(_MASK) + "/effective_affinity_list"


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
