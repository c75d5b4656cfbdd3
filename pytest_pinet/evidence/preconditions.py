"""Reads, in one remote command, the state of an end that can limit the measured value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pytest_pinet.evidence.node_state import busy_share, cpu_ticks, parse_throttled
from pytest_pinet.execution.shell import Shell
from pytest_pinet.execution.undo import at_once
from pytest_pinet.model.evidence import Conditions, PcieLink

# How long (s) to watch the processors for other work, at both ends at once.
BUSY_S = 0.15
SYSFS = "/sys"

# The device's folder shows its PCIe link, and the parent folder the link of its slot. A USB NIC is an interface of the
# parent folder. Raspberry Pi OS has ``vcgencmd``. Sysfs has the same number where the kernel has a driver for it.
_COMMAND = r"""
d={sysfs}/class/net/{device}/device
one() {{ read -r v <"$2" && echo "$1=$v"; }} 2>/dev/null
if [ -e $d ]; then
 p=$(readlink -f $d)
 for k in speed width; do
  one nic_$k $p/current_link_$k; one nic_max_$k $p/max_link_$k; one slot_max_$k ${{p%/*}}/max_link_$k
 done
 case $p in */usb[0-9]*) one usb ${{p%/*}}/speed;; esac
fi
if command -v vcgencmd >/dev/null 2>&1; then vcgencmd get_throttled 2>/dev/null
else for f in {sysfs}/devices/platform/soc*/*/get_throttled; do [ -r $f ] && one throttled $f && break; done; fi
for f in {sysfs}/class/hwmon/hwmon*/in0_lcrit_alarm; do [ -r $f ] && one voltage $f && break; done
one cpu /proc/stat
[ {watch} = 0 ] || {{ sleep {watch} 2>/dev/null || sleep 1; one cpu_after /proc/stat; }}
:
"""
_SPEED = re.compile(r"\d+(?:\.\d+)?")


def read(shell: Shell, device: str, busy_s: float = 0.0, sysfs: str = SYSFS) -> Conditions:
    """Read the state of one end. Raises SshError.

    The share of busy processors is measured over ``busy_s``. Takes one round trip, about 20 ms of the end's time, and
    ``busy_s``.
    """
    done = shell.run(_COMMAND.format(device=device, watch=f"{busy_s:g}", sysfs=sysfs), timeout_s=10.0 + busy_s)
    values = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    current = _link(values.get("nic_speed"), values.get("nic_width"))
    before, after = cpu_ticks(values.get("cpu", "")), cpu_ticks(values.get("cpu_after", ""))
    return Conditions(
        shell.name,
        device,
        pcie=current,
        pcie_best=_best(values) if current is not None else None,
        usb_mbps=_number(values.get("usb")),
        throttling=parse_throttled(values.get("throttled", "")),
        under_voltage=values["voltage"] != "0" if "voltage" in values else None,
        cpu_busy=busy_share(before, after) if before and after else None,
    )


def read_all(devices: Sequence[tuple[Shell, str]], busy_s: float = BUSY_S) -> list[Conditions]:
    """Read several devices, each with its end's shell, at the same time. Raises SshError."""
    return at_once(lambda one: read(*one, busy_s), devices)


def _number(text: str | None) -> float | None:
    found = _SPEED.match(text or "")
    return None if found is None else float(found.group())


def _link(speed: str | None, width: str | None) -> PcieLink | None:
    # "5.0 GT/s PCIe" and "1"; "Unknown" and 0 or 255 if the device does not report them.
    gtps, lanes = _number(speed), _number(width)
    return None if not gtps or not lanes or lanes > 32 else PcieLink(gtps, int(lanes))


def _best(values: Mapping[str, str]) -> PcieLink | None:
    """Return the best link that both the NIC and its slot support; None if one of them does not report it."""
    nic = _link(values.get("nic_max_speed"), values.get("nic_max_width"))
    slot = _link(values.get("slot_max_speed"), values.get("slot_max_width"))
    if nic is None or slot is None:
        return None
    return PcieLink(min(nic.gtps, slot.gtps), min(nic.lanes, slot.lanes))
