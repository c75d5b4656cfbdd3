"""Reads the kernel log lines written during traffic that report trouble with the network, power or memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.evidence.sources import EvidenceSource, Texts
from pytest_pinet.execution.shell import as_root
from pytest_pinet.model.evidence import EndEvidence

# net/sched/sch_generic.c, net/core/dev.c, drivers/hwmon/raspberrypi-hwmon.c, phylib, mm/page_alloc.c,
# drivers/net/usb/usbnet.c, drivers/net/ethernet/*. Each of these messages came with a regression of a Raspberry Pi.
TROUBLE = re.compile(
    r"NETDEV WATCHDOG|transmit queue .*timed out|hw csum failure|[Uu]nder-?voltage detected|Link is Down|\bBUG\b|Oops"
    r"|page allocation failure|kevent .* dropped|rx ring overrun|\bAER:|Unable to handle kernel|Internal error: "
    r"|WARNING: (?:CPU: \d|possible |\S+:\d+ at )"
)
# kernel/panic.c (newer kernels name file and line before the CPU), lib/bug.c, arch/arm64/mm/fault.c,
# arch/*/kernel/traps.c.
_CUT = "[ cut here ]"
_TITLE = re.compile(r"\bWARNING: \S|kernel BUG at |\bBUG: |Unable to handle kernel|Internal error: |\bOops\b")
_BODY = re.compile(
    r"\] (?:\[ *[TC]\d+\] )?(?:Modules linked in:|CPU: \d|Hardware name:|Call [Tt]race:|---\[ end trace)"
)
# The lines of a message before the title.
MOST_BEFORE_TITLE = 3
MOST = 20
_STAMP = re.compile(r"\[ *(\d+\.\d+)\]")


class KernelMessages(EvidenceSource):
    """The log since the first reading, selected by the log's own time stamps.

    A change of the wall clock does not affect these stamps. Uptime is another clock, because NTP adjusts it. On a node
    that runs for weeks both clocks drift apart.
    """

    name = "kernel"

    def command(self, device: str) -> str:
        # On Debian only root can read the log.
        log = f"log=$(dmesg || {as_root('dmesg')})"
        # Printed last, because a log that could not be read would look like a log without trouble.
        since = '{ s = $0; sub(/^[^[]*\\[ */, "", s); if (s + 0 > t + 0) print } END { print "read" }'
        later = f"""awk -v t="$since" '{since}'"""
        return f"""{log} && printf '%s\\n' "$log" | if [ -n "$since" ]; then {later}; else tail -n 1; fi"""

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        *lines, last = texts.after.splitlines() or [""]
        if last != "read":
            return evidence
        return replace(evidence, kernel=tuple(troubles([line for line in lines if _STAMP.search(line)])[:MOST]))


def troubles(lines: Sequence[str]) -> list[str]:
    """Return the lines that report trouble. Of a trace, these are the lines that say what it is and where.

    A trace begins with a line of dashes, perhaps has the message of a WARN(), and then has the line with file, line and
    function.
    """
    found: list[str] = []
    begun: list[str] = []
    for line in map(str.strip, lines):
        if _CUT in line:
            found += begun
            begun = [line]
        elif begun and _TITLE.search(line):
            # The line of dashes says nothing that this line does not.
            found += [*begun[1:], line]
            begun = []
        elif begun and (len(begun) > MOST_BEFORE_TITLE or _BODY.search(line)):
            found += begun
            begun = []
        elif begun:
            begun.append(line)
        if not begun and TROUBLE.search(line) and line not in found[-1:]:
            found.append(line)
    return [*found, *begun]


def last_stamp(text: str) -> float | None:
    """Return the time stamp of the log's last line, by the log's own clock; None for a log without stamps."""
    stamps = _STAMP.findall(text)
    return float(stamps[-1]) if stamps else None
