"""The state of a node around the traffic: busy processors, clock and temperature, trouble in the kernel's log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.sources import EvidenceSource, Texts, added
from pytest_pinet.execution.shell import as_root
from pytest_pinet.model.evidence import EndEvidence, Heat, ProcessorLoad, Throttling

# user nice system idle iowait irq softirq steal (proc(5)). The time of guests is part of user and nice.
_FIELDS = 8
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(_FIELDS)


class Processors(EvidenceSource):
    """CPU times, read nearest to the traffic, with the uptime and the boot ID."""

    name = "stat"

    def files(self, device: str) -> Sequence[str]:
        return ("/proc/uptime", "/proc/sys/kernel/random/boot_id", "/proc/stat")

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        old, new = uptime(texts.before), uptime(texts.after)
        machines = [_machine(text) for text in (texts.before, texts.after)]
        if machines[0] != machines[1]:
            return added(evidence, self.name, processors=None)
        evidence = replace(
            evidence, machine=machines[1], window_s=None if old is None or new is None else max(0.0, new - old)
        )
        before, after = (times_of_cpus(text.splitlines()) for text in (texts.before, texts.after))
        common = [cpu for cpu in sorted(after) if cpu in before]
        if not common:
            return evidence
        # Shares of the window become shares of the traffic.
        window_s, counted_s = evidence.window_s, evidence.counted_s
        scale = window_s / counted_s if window_s and counted_s else 1.0
        loads = tuple(_load(cpu, before[cpu], after[cpu], scale) for cpu in common)
        return replace(evidence, processors=tuple(load for load in loads if load is not None) or None)


def uptime(text: str) -> float | None:
    """Return the seconds since boot at a reading; None if the reading has none."""
    word = text.partition(" ")[0]
    try:
        return float(word)
    except ValueError:
        return None


def _machine(text: str) -> str | None:
    lines = text.splitlines()
    return lines[1].strip() if len(lines) > 1 and not lines[1].startswith("cpu") else None


def cpu_ticks(line: str) -> list[int]:
    """Return the clock ticks of a CPU, or of all, from its line of ``/proc/stat``; empty for another line."""
    name, *words = line.split() or [""]
    if not name.startswith("cpu") or len(words) <= _IOWAIT or not all(map(is_count, words)):
        return []
    ticks = [int(word) for word in words[:_FIELDS]]
    return ticks + [0] * (_FIELDS - len(ticks))


def times_of_cpus(lines: Iterable[str]) -> dict[int, list[int]]:
    """Return the clock ticks by CPU, without the line of their sum."""
    numbers = ((line.partition(" ")[0].removeprefix("cpu"), cpu_ticks(line)) for line in lines)
    return {int(number): ticks for number, ticks in numbers if ticks and is_count(number)}


def busy_share(before: Sequence[int], after: Sequence[int]) -> float | None:
    """Return the share of the time between two readings in which a CPU was not idle; None if no time passed."""
    spent = _spent(before, after)
    return 1 - (spent[_IDLE] + spent[_IOWAIT]) / sum(spent) if any(spent) else None


def _spent(before: Sequence[int], after: Sequence[int]) -> list[int]:
    # The ticks of idle and iowait can fall by a few (proc(5)). This is no restart.
    return [max(0, new - old) for old, new in zip(before, after, strict=True)]


def _load(cpu: int, before: list[int], after: list[int], scale: float) -> ProcessorLoad | None:
    spent, busy = _spent(before, after), busy_share(before, after)
    if busy is None:
        return None
    # A load never exceeds 1.
    scale = min(scale, 1 / busy) if busy > 0 else 1.0
    part = [scale * one / sum(spent) for one in spent]
    return ProcessorLoad(
        cpu,
        busy * scale,
        user=part[_USER] + part[_NICE],
        system=part[_SYSTEM],
        irq=part[_IRQ],
        softirq=part[_SOFTIRQ],
        steal=part[_STEAL],
    )


# ``scaling_cur_freq`` is only the clock that the kernel requested. The firmware may set a lower one.
FILES = (
    "/sys/class/thermal/thermal_zone0/temp",
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq",
    "/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq",
    "/sys/devices/platform/soc*/*/get_throttled",
)
FIRMWARE = "if command -v vcgencmd >/dev/null; then vcgencmd measure_clock arm; vcgencmd get_throttled; fi"
COMMAND = f"{{ {FIRMWARE}; grep -H '' {' '.join(FILES)}; }} 2>/dev/null; :"


class Thermals(EvidenceSource):
    """The readings before and after traffic.

    The same command reads in mid-traffic, because the clock changes with load.
    """

    name = "heat"

    def files(self, device: str) -> Sequence[str]:
        return FILES

    def command(self, device: str) -> str:
        return FIRMWARE

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        return replace(evidence, before=parse_temperature(texts.before), after=parse_temperature(texts.after))


def parse_temperature(text: str) -> Heat | None:
    """Parse the output of COMMAND; None if it has no values."""
    measured: float | None = None
    asked: list[float | None] = []
    most: list[float | None] = []
    temperature: float | None = None
    throttling: Throttling | None = None
    for line in text.splitlines():
        if line.startswith("frequency("):
            # frequency(48)=1500345728, in Hz
            measured = _number(line.partition("=")[2], 1e6)
        elif line.startswith("throttled="):
            throttling = parse_throttled(line.partition("=")[2])
        else:
            path, _, value = line.rpartition(":")
            match path.rpartition("/")[2]:
                case "temp":
                    temperature = _number(value, 1e3)
                case "scaling_cur_freq":
                    asked.append(_number(value, 1e3))
                case "cpuinfo_max_freq":
                    most.append(_number(value, 1e3))
                case "get_throttled":
                    throttling = parse_throttled(value)
    found = Heat(measured or _fastest(asked), _fastest(most), temperature, throttling)
    return None if found == Heat() else found


def _fastest(clocks: list[float | None]) -> float | None:
    return max((clock for clock in clocks if clock is not None), default=None)


def _number(text: str, unit: float) -> float | None:
    try:
        return float(text) / unit
    except ValueError:
        return None


def parse_throttled(text: str) -> Throttling | None:
    """Parse what vcgencmd ("0x50005") or sysfs ("50005") prints; None for other text."""
    try:
        return Throttling(int(text, 16))
    except ValueError:
        return None


# net/sched/sch_generic.c, net/core/dev.c, drivers/hwmon/raspberrypi-hwmon.c, phylib, mm/page_alloc.c,
# drivers/net/usb/usbnet.c, drivers/net/ethernet/* (macb: raspberrypi/linux issue 7471), drivers/usb/core/hub.c. Each of
# these messages came with a regression of a Raspberry Pi.
TROUBLE = re.compile(
    r"NETDEV WATCHDOG|transmit queue .*timed out|hw csum failure|[Uu]nder-?voltage detected|Link is Down|\bBUG\b|Oops"
    r"|page allocation failure|kevent .* dropped|rx ring overrun|\bAER:|Unable to handle kernel|Internal error: "
    r"|WARNING: (?:CPU: \d|possible |\S+:\d+ at )|TX stall detected on queue|\busb \S+: reset \S+ USB device"
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
