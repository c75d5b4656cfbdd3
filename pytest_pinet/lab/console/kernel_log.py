"""Recognise kernel problems in a line of a serial console: panics, oopses, stalls, watchdogs, under-voltage.

The patterns are the kernel's own format strings; the comments name the source files that print them.
"""

from __future__ import annotations

import re
from enum import StrEnum


class KernelEventKind(StrEnum):
    """The kinds of kernel events, with their names in messages."""

    PANIC = "kernel panic"
    OOPS = "kernel oops"
    HUNG_TASK = "hung task"
    LOCKUP = "CPU lockup"
    RCU_STALL = "RCU stall"
    WATCHDOG = "watchdog timeout"
    NETDEV_WATCHDOG = "NETDEV WATCHDOG"
    RESTART = "restart"
    UNDER_VOLTAGE = "under-voltage"
    VOLTAGE_NORMAL = "voltage normalised"

    @property
    def blames_kernel(self) -> bool:
        """Whether this is a kernel failure. After such an event, the node must not be used for further measurements."""
        return self not in (KernelEventKind.UNDER_VOLTAGE, KernelEventKind.VOLTAGE_NORMAL)


# The leftmost match wins. A lockup, whose line also contains "BUG:", therefore needs its own pattern.
_PATTERNS = (
    # kernel/panic.c. The last line, "---[ end Kernel panic - not syncing: ... ]---", is no second panic.
    (KernelEventKind.PANIC, r"(?<!end )Kernel panic - not syncing"),
    # kernel/watchdog.c, kernel/workqueue.c
    (KernelEventKind.LOCKUP, r"soft lockup - CPU#\d+ stuck|hard LOCKUP|BUG: workqueue lockup"),
    # kernel/rcu/tree_stall.h, tree_exp.h
    (
        KernelEventKind.RCU_STALL,
        r"INFO: rcu_\w+ (?:self-detected stall|detected (?:expedited )?stalls)|rcu_\w+ kthread starved for",
    ),
    # kernel/hung_task.c
    (KernelEventKind.HUNG_TASK, r"INFO: task .+ blocked (?:in I/O wait )?for more than \d+ seconds"),
    # drivers/watchdog/pretimeout_noop.c, softdog.c. Most hardware watchdogs reset without a message: see RESTART.
    (KernelEventKind.WATCHDOG, r"watchdog\d*: pretimeout event|softdog: Initiating (?:system reboot|panic)"),
    # net/sched/sch_generic.c, before and after 6.7
    (KernelEventKind.NETDEV_WATCHDOG, r"NETDEV WATCHDOG: .*transmit queue \d+ timed out"),
    # arch/arm64/mm/fault.c, arch/*/kernel/traps.c, lib/bug.c, and all code that prints "BUG: " at the start of a
    # message
    (
        KernelEventKind.OOPS,
        r"Unable to handle kernel|Internal error: (?:Oops|.*\[#\d+\])|\bOops(?:: .*)? \[#\d+\]|kernel BUG at "
        r"|(?:^|\] |login: )BUG: (?!\w+ lockup)",
    ),
    # arch/arm64/kernel/setup.c, arch/arm/kernel/setup.c: the first line of every boot
    (KernelEventKind.RESTART, r"\[ *0\.000000\](?:\[ *[TC]\d+\])? Booting Linux on physical CPU"),
    # drivers/hwmon/raspberrypi-hwmon.c; drivers/firmware/raspberrypi.c before 4.20
    (KernelEventKind.UNDER_VOLTAGE, r"Under-?voltage detected!|Undervoltage detected!"),
    (KernelEventKind.VOLTAGE_NORMAL, r"Voltage normali[sz]ed"),
)
_ANY = re.compile("|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _PATTERNS))
# CSI and OSC sequences, other escapes, and characters that a terminal does not show.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")


def recognise(line: str) -> KernelEventKind | None:
    """Return the kernel event in this line (as ``plain_line`` returns it), or None, as for nearly all lines."""
    match = _ANY.search(line)
    return KernelEventKind[match.lastgroup] if match is not None and match.lastgroup else None


def plain_line(raw: bytes) -> str:
    """Return a line without colours, cursor movements and line end, and with a mark for each invalid UTF-8 sequence."""
    return _CONTROL.sub("", raw.decode("utf-8", "replace")).rstrip()
