"""Checks activity while no measurement runs: traffic on the NICs under test, and a busy processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.model.lab import Interface, Node
from pytest_pinet.model.quantities import Bitrate

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
_READ = "sleep 0.3; {look}; sleep 1; echo; {look}"
_IDLE, _IOWAIT = 3, 4


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
        noise = parse(bench.shell(node.name).run(_READ.format(look=_LOOK.format(devices=devices))).stdout)
        # Emulated boards use the machine's time while they idle, and logins use much more. Their goodput is not
        # affected.
        return judge(node, noise, bench.access.scale.share, not bench.lab.counts_instructions)

    def quiet() -> bool:
        found[:] = bench.in_parallel(look)
        return not any(finding.status is Status.WRONG for finding in found)

    Deadline(SETTLE_TIMEOUT_S).wait_until(quiet)
    return found


def parse(text: str) -> IdleActivity | None:
    """Return the difference between two readings, which an empty line separates; None if they are unusable."""
    first, _, second = text.partition("\n\n")
    before, after = _look(first), _look(second)
    if before is None or after is None or after[1] <= before[1]:
        return None
    times = [new - old for old, new in zip(before[0], after[0], strict=False)]
    waited_s = after[1] - before[1]
    octets = {
        device: ((rx - before[2][device][0]) / waited_s, (tx - before[2][device][1]) / waited_s)
        for device, (rx, tx) in after[2].items()
        if device in before[2]
    }
    return IdleActivity(1 - (times[_IDLE] + times[_IOWAIT]) / max(1, sum(times)), octets)


def _look(text: str) -> tuple[list[int], float, dict[str, tuple[int, int]]] | None:
    try:
        processor, uptime, *devices = text.splitlines()
        # cpu user nice system idle iowait irq softirq steal. Guest times are already part of user.
        times = [_count(word) for word in processor.split()[1:9]]
        counters = {name: (_count(rx), _count(tx)) for name, rx, tx in map(str.split, devices)}
        return (times, float(uptime), counters) if len(times) > _IOWAIT else None
    except ValueError:
        return None


def _count(text: str) -> int:
    if not is_count(text):
        raise ValueError(f"{text[:40]!r} is no counter of a kernel")
    return int(text)


def judge(node: Node, noise: IdleActivity | None, scale: float = 1.0, paced: bool = True) -> list[Finding]:
    """Return what is too busy, for links at ``scale`` of their rate. ``paced``: a busy processor affects results."""
    if noise is None:
        return [Finding(Status.UNKNOWN, node.name, "/proc has no readable counters")]
    found = []
    if paced and noise.busy > BUSY_SHARE:
        message = f"its processor is {noise.busy:.0%} busy while nothing is measured"
        found.append(Finding(Status.WRONG, node.name, message, "find the process on that node: top -b -n 1"))
    for interface in node.interfaces:
        rx, tx = noise.octets.get(interface.device, (0.0, 0.0))
        if max(rx, tx) > _quiet(interface, scale):
            message = (
                f"{interface.device} receives {Bitrate(rx * 8)} and sends {Bitrate(tx * 8)} while nothing is measured"
            )
            act = f"find the sender on that node: sudo tcpdump -n -i {interface.device}"
            found.append(Finding(Status.WRONG, node.name, message, act))
    return found


def _quiet(interface: Interface, scale: float) -> float:
    return max(CHATTER_OCTETS, TRAFFIC_SHARE * scale * interface.speed_mbps * 1e6 / 8)
