"""Preconditions of a measurement. If one is not met, the value is invalid, not slow: another cause limited it.

The checks include whether the requested MSS and buffer sizes took effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_pinet.judge.oracle import TIMESTAMP_OPTION, tcp_headers
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import Conditions, Trouble
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.measurement import REFUSED, Sockets
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Traffic

# The least signal rate of a bus in Mbit/s (USB 2.0 high speed, USB 3.0 SuperSpeed).
USB_MBPS = {Bus.USB2: 480, Bus.USB3: 5000}
# Share of other work on an end: from the first on a note, above the second the value is invalid.
BUSY_NOTE = 0.30
BUSY = 0.90
# Share of ssh and an NFS root over an interface under test: from the first on a note, above the second invalid.
MANAGEMENT_NOTE = 0.001
MANAGEMENT = 0.01


def broken(one: Conditions, bus: Bus | None = None) -> list[Trouble]:
    """Return each unmet precondition; unknown values meet it. ``bus`` is the bus of the end's NIC."""
    return [*_bus(one, bus), *_power(one), *_busy(one)]


def notes(seen: Sequence[Conditions]) -> list[str]:
    """Return notes on the ends that readers need, although the value is valid. An end is seen before each connection.

    A kind of note comes once for each end.
    """
    found: dict[str, None] = {}
    for end in dict.fromkeys(one.end for one in seen):
        own = [one for one in seen if one.end == end]
        busy = [one.cpu_busy for one in own if one.cpu_busy is not None and BUSY_NOTE <= one.cpu_busy <= BUSY]
        if busy:
            most = f"{'up to ' if len(busy) > 1 else ''}{max(busy) * 100:.0f} %"
            when = f"{len(busy)} connections" if len(busy) > 1 else "the traffic"
            found[f"{end} was {most} busy with other work before {when}"] = None
        for one in own:
            if one.throttling is not None and one.throttling.since_boot and not one.throttling.now:
                found[f"{end} had {' and '.join(one.throttling.since_boot)} since it was booted"] = None
    return list(found)


def broke_during(before: Conditions, after: Conditions) -> list[Trouble]:
    """Return each fault of an end during the traffic, even if it is over now."""
    found = broken(after) if not broken(before) else []
    if found or before.throttling is None or after.throttling is None:
        return found
    fresh = [name for name in after.throttling.since_boot if name not in before.throttling.since_boot]
    if not fresh:
        return []
    return [Trouble(f"{after.end} had {' and '.join(fresh)} during the traffic", _POWER_ACT)]


_POWER_ACT = "give it a stronger power supply, a shorter cable, or cooling"


def _bus(one: Conditions, bus: Bus | None) -> list[Trouble]:
    found = []
    if one.pcie is not None and one.pcie_best is not None and one.pcie.capacity < one.pcie_best.capacity:
        # Boards with more than 5 GT/s have a setting for it.
        setting = "; look for dtparam=pciex1_gen in config.txt" if one.pcie_best.gtps > 5 else ""
        text = (
            f"the PCIe link of {one.end} {one.device} runs at {one.pcie}, though both its ends support {one.pcie_best}"
        )
        found.append(Trouble(text, f"reseat the card{setting}"))
    least = None if bus is None else USB_MBPS.get(bus)
    if least is not None and one.usb_mbps is not None and one.usb_mbps < least:
        text = f"the USB NIC {one.device} of {one.end} runs at {one.usb_mbps:g} Mbit/s instead of {least} Mbit/s"
        found.append(Trouble(text, "plug it into a port of that speed, without a hub or a long cable"))
    return found


def _power(one: Conditions) -> list[Trouble]:
    if one.throttling is not None and one.throttling.now:
        return [Trouble(f"{one.end} is limited by its firmware: {' and '.join(one.throttling.now)}", _POWER_ACT)]
    if one.under_voltage:
        return [Trouble(f"{one.end} has under-voltage", _POWER_ACT)]
    return []


def _busy(one: Conditions) -> list[Trouble]:
    if one.cpu_busy is None or one.cpu_busy <= BUSY:
        return []
    text = f"the processors of {one.end} were {one.cpu_busy * 100:.0f} % busy with other work before the traffic"
    return [Trouble(text, f"look for other processes on {one.end}")]


def rate_bps(one: Connection) -> float:
    """Return the goodput of all flows of a connection together."""
    return sum(flow.flow.goodput.bps for flow in one.flows)


def management_share(connections: Sequence[Connection], usual_bps: float | None = None) -> dict[str, float]:
    """Return the largest share that ssh and an NFS root of each end had, for ends that share a NIC.

    It is the share of the measured traffic, or of ``usual_bps``: beside a slow build, constant octets of ssh are a
    larger share of the traffic, although they disturb it no more.
    """
    found: dict[str, float] = {}
    for each in (one for one in connections if not one.excluded):
        slower = rate_bps(each) / usual_bps if usual_bps else 1.0
        for end in each.evidence:
            if end.management is not None and end.management.share is not None:
                found[end.end] = max(found.get(end.end, 0.0), end.management.share * slower)
    return found


def management_notes(connections: Sequence[Connection], usual_bps: float | None = None) -> list[str]:
    """Return a note for each end whose ssh or NFS root disturbed the traffic on the same interface."""
    return [
        _management(end, share, MANAGEMENT_NOTE, usual_bps)
        for end, share in management_share(connections, usual_bps).items()
        if MANAGEMENT_NOTE < share <= MANAGEMENT
    ]


def management_trouble(connections: Sequence[Connection], usual_bps: float | None = None) -> list[Trouble]:
    """Return the ends whose ssh or NFS root makes the value invalid."""
    act = (
        "look for other users of the node, for programs that print much during the traffic, and for programs "
        "that read or write files of an NFS root"
    )
    shares = management_share(connections, usual_bps).items()
    return [Trouble(_management(end, share, MANAGEMENT, usual_bps), act) for end, share in shares if share > MANAGEMENT]


def _management(end: str, share: float, most: float, usual_bps: float | None) -> str:
    of = "the rate of A" if usual_bps else "the measured traffic"
    return (
        f"ssh, or an NFS root, of {end} used its interface, too: {share * 100:.2g} % of {of} "
        f"(at most {most * 100:g} % is allowed)"
    )


def socket_trouble(
    sockets: Sockets, mtu: int, timestamps: bool, mss: int | None = None, end: str = "", family: int = 4
) -> list[Trouble]:
    """Return whether segments are smaller than ``mss`` (bytes), or for None, smaller than the MTU allows.

    The kernel's MSS is that of RFC 9293 without the options of RFC 7323: MTU - 40, less 12 with timestamps (IPv6: MTU -
    60). That a receiver has too little memory for whole segments is a property of its build, not of the path.
    """
    options = TIMESTAMP_OPTION if timestamps else 0
    largest = mtu - tcp_headers(family)
    wanted = largest if mss is None else mss
    if sockets.mss >= wanted - options or sockets.is_mss_of_window:
        return []
    where = f" of {end}" if end else ""
    carried = f"segments{where} carried {sockets.mss} bytes"
    if mss is not None and mss > largest and sockets.mss >= largest - options:
        return [Trouble(f"mss={mss} bytes was requested, but {carried}: MTU {mtu} allows no more than mss={largest}")]
    why = f"MTU {mtu} allows {wanted - options}" if mss is None else f"mss={mss} bytes was requested"
    act = "look for a smaller MTU on the path, also in the cache of path MTU discovery (ip route show cache)"
    return [Trouble(f"{carried}, though {why}", act)]


def buffer_trouble(sockets: Sockets | None, far: Sockets | None, window: int, ends: tuple[str, str]) -> list[str]:
    """Return a sentence for each end (sender, receiver) whose kernel gave less than the requested window (bytes).

    Linux limits the requested value to its maximum first, without an error, and then doubles it.
    """
    given = (
        (ends[0], "wmem_max", None if sockets is None else sockets.sndbuf_bytes),
        (ends[1], "rmem_max", None if far is None else far.rcvbuf_bytes),
    )
    return [
        window_text(window, size, end, sysctl) for end, sysctl, size in given if size is not None and size < 2 * window
    ]


def window_text(window: int, buffer: int, end: str, sysctl: str) -> str:
    """Return a sentence about a buffer (bytes) smaller than twice the window, which Linux normally allocates."""
    return f"window={window} bytes was not effective on {end}: the kernel gave {buffer // 2} (raise net.core.{sysctl})"


def ineffective_settings(link: LinkFacts, traffic: Traffic, connections: Sequence[Connection]) -> list[str]:
    """Return a sentence for each setting that was not effective, from the kernels' values during the traffic."""
    # A link that is down has the smallest segments; such a connection is not counted.
    connections = [one for one in connections if not one.excluded]
    found = [sentence for one in connections for m in one.measurements for sentence in m.unmet]
    # The tool may have reported the window already, with the node's name.
    window = None if found else traffic.window
    for flow in (flow for one in connections for flow in one.flows):
        path = link.path_between(flow.sender, flow.receiver)
        ends = str(link.ends[flow.sender]), str(link.ends[flow.receiver])
        sockets, far = flow.flow.sockets, flow.flow.far_sockets
        if traffic.mss is not None and sockets is not None:
            sent = traffic.mss, ends[0], traffic.setup.family
            found += [one.text for one in socket_trouble(sockets, path.mtu, path.timestamps, *sent)]
        elif traffic.mss is not None and traffic.mss > (largest := path.mtu - tcp_headers(traffic.setup.family)):
            found.append(f"mss={traffic.mss} bytes was requested, but MTU {path.mtu} allows no more than mss={largest}")
        if window is not None:
            found += buffer_trouble(sockets, far, window, ends)
    return list(dict.fromkeys(found))


def unseen(traffic: Traffic, connections: Sequence[Connection]) -> list[str]:
    """Return a sentence if an MSS was requested, and no kernel reported whether it was effective."""
    if traffic.mss is None or any(flow.flow.sockets is not None for one in connections for flow in one.flows):
        return []
    missing = "but no sender reported the MSS that it used (this needs ss of iproute2)"
    return [f"mss={traffic.mss} bytes was requested, {missing}"]


def failed_requests(connections: Sequence[Connection]) -> str:
    """Return a sentence about requests that failed or had a bad status; empty if there are none."""
    counts: Counter[str] = Counter()
    requests = 0
    for report in (m.http for one in connections for m in one.measurements if m.http is not None):
        requests += report.requests
        counts.update(report.troubles)
    refused = counts.pop(REFUSED, 0)
    others = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    if refused:
        return f"requests failed: {refused} of {requests} (answer was not 2xx){f'; {others}' if others else ''}"
    return f"requests failed: {others}; {requests} were answered" if others else ""
