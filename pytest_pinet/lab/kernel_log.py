"""What a line on a serial console says of the kernel that wrote it: panics, oopses, stalls, watchdogs, under-voltage.

The patterns are the kernel's own format strings; in the comments stand the files that print them.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Kind(StrEnum):
    """What was recognised, as messages call it."""

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

    def __str__(self) -> str:
        return self.value

    @property
    def blames_kernel(self) -> bool:
        """Whether the kernel broke; what it left behind is no basis for another measurement."""
        return self not in (Kind.UNDER_VOLTAGE, Kind.VOLTAGE_NORMAL)


# Whichever matches further to the left wins: a lockup, which also reads "BUG:", must be kept apart.
_PATTERNS = (
    # kernel/panic.c. The last line, "---[ end Kernel panic - not syncing: ... ]---", is no second panic.
    (Kind.PANIC, r"(?<!end )Kernel panic - not syncing"),
    # kernel/watchdog.c, kernel/workqueue.c
    (Kind.LOCKUP, r"soft lockup - CPU#\d+ stuck|hard LOCKUP|BUG: workqueue lockup"),
    # kernel/rcu/tree_stall.h, tree_exp.h
    (
        Kind.RCU_STALL,
        r"INFO: rcu_\w+ (?:self-detected stall|detected (?:expedited )?stalls)|rcu_\w+ kthread starved for",
    ),
    # kernel/hung_task.c
    (Kind.HUNG_TASK, r"INFO: task .+ blocked (?:in I/O wait )?for more than \d+ seconds"),
    # drivers/watchdog/pretimeout_noop.c, softdog.c. Most hardware watchdogs reset without a word: see RESTART.
    (Kind.WATCHDOG, r"watchdog\d*: pretimeout event|softdog: Initiating (?:system reboot|panic)"),
    # net/sched/sch_generic.c, before and after 6.7
    (Kind.NETDEV_WATCHDOG, r"NETDEV WATCHDOG: .*transmit queue \d+ timed out"),
    # arch/arm64/mm/fault.c, arch/*/kernel/traps.c, lib/bug.c, and whoever prints "BUG: " at the start of its message
    (
        Kind.OOPS,
        r"Unable to handle kernel|Internal error: (?:Oops|.*\[#\d+\])|\bOops(?:: .*)? \[#\d+\]|kernel BUG at "
        r"|(?:^|\] |login: )BUG: (?!\w+ lockup)",
    ),
    # arch/arm64/kernel/setup.c, arch/arm/kernel/setup.c: the first line of every boot
    (Kind.RESTART, r"\[ *0\.000000\](?:\[ *[TC]\d+\])? Booting Linux on physical CPU"),
    # drivers/hwmon/raspberrypi-hwmon.c; drivers/firmware/raspberrypi.c before 4.20
    (Kind.UNDER_VOLTAGE, r"Under-?voltage detected!|Undervoltage detected!"),
    (Kind.VOLTAGE_NORMAL, r"Voltage normali[sz]ed"),
)
_ANY = re.compile("|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _PATTERNS))
# CSI and OSC sequences, other escapes, and what a terminal does not show.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")


def recognise(line: str) -> Kind | None:
    """What this line (as ``plain_line`` gives it) says of the kernel; None for nearly all lines."""
    match = _ANY.search(line)
    return Kind[match.lastgroup] if match is not None and match.lastgroup else None


def plain_line(raw: bytes) -> str:
    """A line as a person reads it: no colours, no cursor movements, no line end; what is no UTF-8 is marked."""
    return _CONTROL.sub("", raw.decode("utf-8", "replace")).rstrip()
