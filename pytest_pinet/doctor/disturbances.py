"""Checks what disturbs a measurement, such as a throttled processor, and whether the tolerances exceed the noise."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.config.baselines import load_baselines
from pytest_pinet.config.calibration import Calibration, load_calibration
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.doctor.bench import Bench, Finding, Status
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.node_state import busy_share, cpu_ticks, parse_throttled
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.judge.profile import PROFILES, most_specific
from pytest_pinet.judge.spread import smallest_margin
from pytest_pinet.judge.statistics import percent
from pytest_pinet.matrix.expansion import PAIR, entries
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.evidence import Throttling
from pytest_pinet.model.lab import WALL, Node
from pytest_pinet.model.limits import Limit, Metric
from pytest_pinet.model.metric_key import MetricKey
from pytest_pinet.model.quantities import Bitrate, Tolerance
from pytest_pinet.model.traffic import Direction, Traffic

# Times of console, switch and runner are compared with this accuracy.
LARGEST_OFFSET_S = 1.0
_READ_CLOCK = (
    't=$(vcgencmd get_throttled 2>/dev/null); [ -n "$t" ] || '
    "t=$(cat /sys/devices/platform/soc/soc:firmware/get_throttled 2>/dev/null); echo throttled=$t;"
    " test -e /proc/device-tree/model && echo tree=1;"
    " cd /sys/devices/system/cpu/cpufreq/policy0 2>/dev/null &&"
    " for key in scaling_driver scaling_governor scaling_cur_freq scaling_max_freq cpuinfo_max_freq;"
    " do echo $key=$(cat $key 2>/dev/null); done; echo time=$(date +%s.%N)"
)
# With these drivers "powersave" means what other drivers call "schedutil".
_HARDWARE_DRIVEN = ("intel_pstate", "amd-pstate-epp")


@dataclass(frozen=True)
class ClockFacts:
    """Values of a node; None if the node does not report them. Clocks in MHz; ``offset_s`` > 0: ahead of the runner."""

    throttling: Throttling | None
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
        text = bench.shell(node.name).run(_READ_CLOCK).stdout
        facts = parse_clock(text, before, time.time())
        # A clock that counts instructions always differs from the runner's. Such an offset cannot be fixed.
        return judge_clock(node, facts if node.clock == WALL else replace(facts, offset_s=0.0))

    return bench.in_parallel(look)


def parse_clock(text: str, before_s: float, after_s: float) -> ClockFacts:
    """Parse the node's output, which was printed between these two times of the runner."""
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    said = values.get("time", "")
    offset = None
    if re.fullmatch(r"\d+\.\d+", said):
        # The node read its clock between both times. A value in this range counts as no offset.
        offset = max(0.0, float(said) - after_s) + min(0.0, float(said) - before_s)
    return ClockFacts(
        throttling=parse_throttled(values.get("throttled", "").removeprefix("throttled=")),
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


def judge_clock(node: Node, facts: ClockFacts) -> list[Finding]:
    """Return what is wrong or unknown about one node; empty if all is well."""
    wrong = [*_throttling(facts), *_clock(node, facts)]
    if facts.offset_s is not None and abs(facts.offset_s) > LARGEST_OFFSET_S:
        way = "ahead of" if facts.offset_s > 0 else "behind"
        message = f"its clock is {abs(facts.offset_s):.0f} s {way} the clock of this machine"
        wrong.append((message, "on that node: sudo timedatectl set-ntp true"))
    found = [Finding(Status.WRONG, node.name, message, act) for message, act in wrong]
    values = {
        "no throttling flags (no vcgencmd)": facts.throttling,
        "no cpufreq": facts.governor,
        "no time of day": facts.offset_s,
    }
    missing = [words for words, value in values.items() if value is None]
    return [*found, Finding(Status.UNKNOWN, node.name, ", ".join(missing))] if missing else found


def _throttling(facts: ClockFacts) -> list[tuple[str, str]]:
    flags = facts.throttling or Throttling(0)
    now = flags.now
    past = [word for word in flags.since_boot if word not in now]
    if not now and not past:
        return []
    words = [f"{', '.join(now)} now"] if now else []
    words += [f"{', '.join(past)} since its last boot"] if past else []
    cause = "power supply and its cable" if any("voltage" in word for word in (*now, *past)) else "cooling"
    act = f"the lab's admin: check {cause} of that node; a reboot clears the flags"
    return [(f"{'; '.join(words)} (0x{flags.bits:x})", act)]


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


# Time for activity that ends by itself, such as the services of a boot.
SETTLE_TIMEOUT_S = 4.0
BUSY_SHARE = 0.10
# Share of the line rate, but at least this many octets a second: ARP, LLDP, our own ssh.
TRAFFIC_SHARE = 0.001
CHATTER_OCTETS = 10_000
_LOOK = (
    "head -n 1 /proc/stat; cut -d ' ' -f 1 /proc/uptime;"
    " for d in {devices}; do cd /sys/class/net/$d && echo $d $(cat statistics/rx_bytes statistics/tx_bytes); done"
)
# All nodes are read in parallel. Nodes can share a machine, where logins of other nodes are noise. The pause lets all
# logins finish first.
_READ_TWICE = "sleep 0.3; {look}; sleep 1; echo; {look}"


@dataclass(frozen=True)
class IdleActivity:
    """Activity in one second: the busy share of the processors, and octets per second in and out of each device."""

    busy: float
    octets: dict[str, tuple[float, float]]


def check_noise(bench: Bench) -> Sequence[Finding]:
    """Check that the NICs under test and the processor are idle."""
    found: list[Finding] = []

    def look(node: Node) -> list[Finding]:
        devices = " ".join(interface.device for interface in node.interfaces if interface in bench.states)
        noise = parse_noise(bench.shell(node.name).run(_READ_TWICE.format(look=_LOOK.format(devices=devices))).stdout)
        # Emulated boards use the machine's time while they idle, and logins use much more. Their goodput is not
        # affected.
        return judge_noise(node, noise, bench.access.scale.share, not bench.lab.counts_instructions)

    def quiet() -> bool:
        found[:] = bench.in_parallel(look)
        return not any(finding.status is Status.WRONG for finding in found)

    Deadline(SETTLE_TIMEOUT_S).wait_until(quiet)
    return found


def parse_noise(text: str) -> IdleActivity | None:
    """Return the difference between two readings, which an empty line separates; None if they are unusable."""
    first, _, second = text.partition("\n\n")
    before, after = _look(first), _look(second)
    if before is None or after is None or after[1] <= before[1]:
        return None
    waited_s = after[1] - before[1]
    octets = {
        device: ((rx - before[2][device][0]) / waited_s, (tx - before[2][device][1]) / waited_s)
        for device, (rx, tx) in after[2].items()
        if device in before[2]
    }
    return IdleActivity(busy_share(before[0], after[0]) or 0.0, octets)


def _look(text: str) -> tuple[list[int], float, dict[str, tuple[int, int]]] | None:
    try:
        processor, uptime, *devices = text.splitlines()
        times = cpu_ticks(processor)
        counters = {name: (_count(rx), _count(tx)) for name, rx, tx in map(str.split, devices)}
        return (times, float(uptime), counters) if times else None
    except ValueError:
        return None


def _count(text: str) -> int:
    if not is_count(text):
        raise ValueError(f"{text[:40]!r} is no counter of a kernel")
    return int(text)


def judge_noise(node: Node, noise: IdleActivity | None, scale: float = 1.0, paced: bool = True) -> list[Finding]:
    """Return what is too busy, for links at ``scale`` of their rate. ``paced``: a busy processor affects results."""
    if noise is None:
        return [Finding(Status.UNKNOWN, node.name, "/proc has no readable counters")]
    found = []
    if paced and noise.busy > BUSY_SHARE:
        message = f"its processor is {noise.busy:.0%} busy while nothing is measured"
        found.append(Finding(Status.WRONG, node.name, message, "find the process on that node: top -b -n 1"))
    for interface in node.interfaces:
        rx, tx = noise.octets.get(interface.device, (0.0, 0.0))
        if max(rx, tx) > max(CHATTER_OCTETS, TRAFFIC_SHARE * scale * interface.speed_mbps * 1e6 / 8):
            message = (
                f"{interface.device} receives {Bitrate(rx * 8)} and sends {Bitrate(tx * 8)} while nothing is measured"
            )
            act = f"find the sender on that node: sudo tcpdump -n -i {interface.device}"
            found.append(Finding(Status.WRONG, node.name, message, act))
    return found


def check_tolerances(bench: Bench) -> Sequence[Finding]:
    """Check that each tolerance exceeds the loss of goodput that noise alone can cause."""
    assert isinstance(bench.lab, LabOfFile), "the doctor reads a lab from its file"
    return judge_tolerances(bench.lab)


def judge_tolerances(lab: LabOfFile) -> list[Finding]:
    """Return tolerances below the smallest margin for their noise, and uncalibrated pairs. Raises ConfigError."""
    pairs = [e.combination for e in entries(lab, [PAIR]) if e.combination is not None]
    baselines = {name: one.value for name, one in load_baselines(lab).items() if isinstance(one.value, Bitrate)}
    calibration = load_calibration(lab)
    command = f"pinet calibrate --lab {shlex.quote(lab.file)}"
    found = []
    missing = []
    for pair in pairs:
        own = {name: one for name, one in calibration.items() if name.startswith(f"{pair.id}/")}
        if not own:
            missing.append(pair.id)
        for name, calibrated in own.items():
            bound, source = _tolerance(pair, name, lab.limits, calibrated)
            tolerance = _fraction(bound, baselines.get(name))
            margin = smallest_margin(calibrated.judged_noise, PROFILES[lab.profile])
            if tolerance is not None and tolerance < margin:
                message = (
                    f"the tolerance of {name} is {percent(tolerance)} ({source}), but noise alone can lower goodput by "
                    f"{percent(margin)}: an unchanged kernel can fail"
                )
                act = f"raise the tolerance, or remove the cause of the noise and calibrate again: {command} {pair.id}"
                found.append(Finding(Status.WRONG, message=message, act=act))
    if missing:
        everything = len(missing) == len(pairs)
        message = "no pair is calibrated yet" if everything else f"not calibrated: {', '.join(missing)}"
        act = f"measure the noise: {command}{'' if everything else ' ' + ' '.join(missing)}"
        found.append(Finding(Status.UNKNOWN, message=message, act=act))
    return found or [Finding(Status.OK, message=f"{len(pairs)} pairs are calibrated")]


def _fraction(tolerance: Tolerance, baseline: Bitrate | None) -> float | None:
    """Return the tolerance as a fraction of the baseline; None for an absolute tolerance without a baseline."""
    if baseline is None:
        return tolerance.relative.fraction if tolerance.absolute is None else None
    return 1 - tolerance.lowest(baseline).bps / baseline.bps


def _tolerance(pair: Combination, name: str, limits: Iterable[Limit], calibrated: Calibration) -> tuple[Tolerance, str]:
    """Return a metric's tolerance and where it is written: the lab file's, else the one that calibration proposed."""
    way = Direction.RX if name.endswith("-rx") else Direction.TX
    traffic = Traffic(Direction.BIDIR if "-bidir-" in name else way)
    limit = most_specific(list(limits), MetricKey(pair.identity, traffic, way), Metric.TOLERANCE)
    if limit is not None and isinstance(limit.bound, Tolerance):
        return limit.bound, limit.source
    return Tolerance(calibrated.tolerance), str(calibrated.where)
