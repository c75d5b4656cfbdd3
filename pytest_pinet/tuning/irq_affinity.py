"""The CPUs that handle the interrupts of a NIC."""

from __future__ import annotations

from pytest_pinet.execution.nic_interrupts import interrupts_script, parse_interrupts
from pytest_pinet.tuning.file_setting import ONLINE
from pytest_pinet.tuning.files import look_into, read_files, write_files
from pytest_pinet.tuning.setting import DeviceSetting, NoKnob, SettingPlace, SettingReading
from pytest_pinet.tuning.values import cpu_list, shown, text

_SPREAD = "spread"
_ONLINE = "online"
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
