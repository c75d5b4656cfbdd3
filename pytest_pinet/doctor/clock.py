"""Checks what slows a processor down: throttling, a capped or slow clock. Also checks the time of day."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.model.lab import WALL, Node

# Times of console, switch and runner are compared with this accuracy.
LARGEST_OFFSET_S = 1.0
_READ = (
    't=$(vcgencmd get_throttled 2>/dev/null); [ -n "$t" ] || '
    "t=$(cat /sys/devices/platform/soc/soc:firmware/get_throttled 2>/dev/null); echo throttled=$t;"
    " test -e /proc/device-tree/model && echo tree=1;"
    " cd /sys/devices/system/cpu/cpufreq/policy0 2>/dev/null &&"
    " for key in scaling_driver scaling_governor scaling_cur_freq scaling_max_freq cpuinfo_max_freq;"
    " do echo $key=$(cat $key 2>/dev/null); done; echo time=$(date +%s.%N)"
)
# ``vcgencmd get_throttled``: these bits are the present state. The same bits 16 further up cover the time since boot.
_THROTTLED = {0: "under-voltage", 1: "processor clock capped", 2: "throttled", 3: "soft temperature limit"}
_SINCE_BOOT = 16
# With these drivers "powersave" means what other drivers call "schedutil".
_HARDWARE_DRIVEN = ("intel_pstate", "amd-pstate-epp")


@dataclass(frozen=True)
class ClockFacts:
    """Values of a node; None if the node does not report them. Clocks in MHz; ``offset_s`` > 0: ahead of the runner."""

    throttled: int | None
    governor: str | None = None
    driver: str | None = None
    current_mhz: float | None = None
    cap_mhz: float | None = None
    top_mhz: float | None = None
    known_board: bool = False
    offset_s: float | None = None


def check_clock(bench: Bench) -> Sequence[Finding]:
    """Check that nothing throttles or caps the processor, and that its time of day agrees with the runner's."""

    def look(node: Node) -> list[Finding]:
        before = time.time()
        text = bench.shell(node.name).run(_READ).stdout
        facts = parse(text, before, time.time())
        # A clock that counts instructions always differs from the runner's. Such an offset cannot be fixed.
        return judge(node, facts if node.clock == WALL else replace(facts, offset_s=0.0))

    return bench.in_parallel(look)


def parse(text: str, before_s: float, after_s: float) -> ClockFacts:
    """Parse the node's output, which was printed between these two times of the runner."""
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    # vcgencmd prints "throttled=0x50005", sysfs "50005".
    bits = re.fullmatch(r"(?:throttled=)?(?:0x)?([0-9a-f]+)", values.get("throttled", ""))
    said = values.get("time", "")
    offset = None
    if re.fullmatch(r"\d+\.\d+", said):
        # The node read its clock between both times. A value in this range counts as no offset.
        offset = max(0.0, float(said) - after_s) + min(0.0, float(said) - before_s)
    return ClockFacts(
        throttled=int(bits[1], 16) if bits else None,
        governor=values.get("scaling_governor") or None,
        driver=values.get("scaling_driver") or None,
        current_mhz=_mhz(values.get("scaling_cur_freq")),
        cap_mhz=_mhz(values.get("scaling_max_freq")),
        top_mhz=_mhz(values.get("cpuinfo_max_freq")),
        known_board="tree" in values,
        offset_s=offset,
    )


def _mhz(khz: str | None) -> float | None:
    return int(khz) / 1000 if khz and is_count(khz) else None


def judge(node: Node, facts: ClockFacts) -> list[Finding]:
    """Return what is wrong or unknown about one node; empty if all is well."""
    wrong = [*_throttling(facts), *_clock(node, facts)]
    if facts.offset_s is not None and abs(facts.offset_s) > LARGEST_OFFSET_S:
        way = "ahead of" if facts.offset_s > 0 else "behind"
        message = f"its clock is {abs(facts.offset_s):.0f} s {way} the clock of this machine"
        wrong.append((message, "on that node: sudo timedatectl set-ntp true"))
    found = [Finding(Status.WRONG, node.name, message, act) for message, act in wrong]
    values = {
        "no throttling flags (no vcgencmd)": facts.throttled,
        "no cpufreq": facts.governor,
        "no time of day": facts.offset_s,
    }
    missing = [words for words, value in values.items() if value is None]
    return [*found, Finding(Status.UNKNOWN, node.name, ", ".join(missing))] if missing else found


def _throttling(facts: ClockFacts) -> list[tuple[str, str]]:
    flags = facts.throttled or 0
    now = [word for bit, word in _THROTTLED.items() if flags >> bit & 1]
    past = [word for bit, word in _THROTTLED.items() if flags >> (bit + _SINCE_BOOT) & 1 and word not in now]
    if not now and not past:
        return []
    words = [f"{', '.join(now)} now"] if now else []
    words += [f"{', '.join(past)} since its last boot"] if past else []
    cause = "power supply and its cable" if any("voltage" in word for word in (*now, *past)) else "cooling"
    act = f"the lab's admin: check {cause} of that node; a reboot clears the flags"
    return [(f"{'; '.join(words)} (0x{flags:x})", act)]


def _clock(node: Node, facts: ClockFacts) -> list[tuple[str, str]]:
    governor, cap, top = facts.governor, facts.cap_mhz, facts.top_mhz
    policy = "/sys/devices/system/cpu/cpufreq/policy*"
    if governor == "powersave" and facts.driver not in _HARDWARE_DRIVEN:
        act = f"on that node: echo ondemand | sudo tee {policy}/scaling_governor"
        return [(f"governor powersave keeps the processor at its lowest clock ({facts.current_mhz or 0:.0f} MHz)", act)]
    if cap is not None and top is not None and cap < top:
        act = f"on that node: echo {top * 1000:.0f} | sudo tee {policy}/scaling_max_freq"
        return [(f"the processor's clock is capped at {cap:.0f} of {top:.0f} MHz", act)]
    if facts.known_board and top is not None and top < node.board.clock_mhz:
        message = f"the highest processor clock is {top:.0f} MHz, the lab file has {node.board.clock_mhz} MHz"
        return [(message, f"correct `clock_mhz` of board {node.board.name} in the lab file, or arm_freq in config.txt")]
    if governor == "performance" and facts.current_mhz and top and facts.current_mhz < 0.95 * top:
        message = f"governor performance, but the processor runs at {facts.current_mhz:.0f} of {top:.0f} MHz"
        return [(message, "the lab's admin: check cooling and power supply of that node")]
    return []
