"""Reads the kernel log lines written during traffic that report trouble with the network, power or memory."""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_pinet.evidence.sources import EvidenceSource, Texts
from pytest_pinet.execution.shell import as_root
from pytest_pinet.model.evidence import EndEvidence

# net/sched/sch_generic.c, net/core/dev.c, drivers/hwmon/raspberrypi-hwmon.c, phylib, mm/page_alloc.c,
# drivers/net/usb/usbnet.c, drivers/net/ethernet/*. Each of these messages came with a regression of a Raspberry Pi.
TROUBLE = re.compile(
    r"NETDEV WATCHDOG|transmit queue .*timed out|hw csum failure|[Uu]nder-?voltage detected|Link is Down|\bBUG\b|Oops"
    r"|page allocation failure|kevent .* dropped|rx ring overrun|\bAER:|cut here"
)
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
        found = [line.strip() for line in lines if _STAMP.search(line) and TROUBLE.search(line)]
        return replace(evidence, kernel=tuple(found[:MOST]))


def last_stamp(text: str) -> float | None:
    """Return the time stamp of the log's last line, by the log's own clock; None for a log without stamps."""
    stamps = _STAMP.findall(text)
    return float(stamps[-1]) if stamps else None
