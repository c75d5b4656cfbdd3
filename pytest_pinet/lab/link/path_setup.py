"""The setup of the path for one gate call: a VLAN tag and IPv6 at the ends, delay and loss at the peers.

Every change is undone at the end of the call, and after a crash by the journals of the nodes.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from pytest_pinet.errors import CapabilityError, LinkError, TagsLostError, UnsupportedError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.trace import doing
from pytest_pinet.execution.undo import UndoStack, undone
from pytest_pinet.lab.link.end import End, adding_address, change, undo_by
from pytest_pinet.lab.link.link import BENCHMARK_NET, Link, in_family, set_up_forwarding
from pytest_pinet.lab.link.rate_shaper import impaired
from pytest_pinet.model.traffic import USUAL_PATH, PathSetup

# The smallest MTU of IPv6 (RFC 8200).
IPV6_MTU = 1280
ANSWER_TIMEOUT_S = 5.0
# The peer removes delay and loss after this time, even if the runner hangs.
AT_MOST_S = 6 * 3600.0


@contextmanager
def set_up(link: Link, setup: PathSetup) -> Iterator[Link]:
    """Set up the path of a link, and yield the link with the addresses to use. The exit undoes every change.

    Raises CapabilityError for what this lab lacks, LinkError if a node refuses a change or an undo, SshError.
    """
    if setup == USUAL_PATH:
        yield link
        return
    with undone("look at the node; the next link undoes what its journal has") as undo:
        if setup.vlan is not None:
            link = _tagged(link, setup.vlan, undo)
        if setup.family == 6:
            link = _with_ipv6(link, undo)
        with ExitStack() as stack:
            if setup.delay_s or setup.loss:
                _impair(link, setup, stack)
            yield link


def _tagged(link: Link, vlan: int, undo: UndoStack) -> Link:
    """Give each end a device for tagged frames, with an address in the other half of the benchmark network."""
    ends = tuple(_upper(end, vlan) for end in link.ends)
    topology = link.combination.topology
    with doing(f"add devices for VLAN {vlan}"):
        undo.at_once(lambda both, undo: _add_device(*both, vlan, undo), [*zip(link.ends, ends, strict=True)])
        for a, b, *_ in topology.segments if topology.forwards else topology.pairs:
            if not _answers(ends[a], ends[b]):
                raise TagsLostError(
                    f"vlan={vlan}: tagged frames of {ends[a]} do not arrive at {ends[b]}; "
                    "do the switch ports carry tagged frames?"
                )
        if topology.forwards:
            set_up_forwarding(ends[0], ends[1], ends[2], ends[3], undo)
    return replace(link, ends=ends)


def _upper(end: End, vlan: int) -> End:
    number = int(end.address.ip) ^ (BENCHMARK_NET.num_addresses >> 1)
    # A name has at most 15 characters.
    interface = replace(end.endpoint.interface, device=f"{end.device[:10]}.{vlan}")
    address = ipaddress.IPv4Interface((number, end.address.network.prefixlen))
    return replace(end, endpoint=replace(end.endpoint, interface=interface), address=address)


def _add_device(end: End, upper: End, vlan: int, undo: UndoStack) -> None:
    device, name = upper.device, end.shell.name
    gone = f"! ip link show {device} >/dev/null 2>&1"
    kept = undo_by(end, f"{device} on {name}", f"ip link del {device} || {gone}", undo)
    try:
        change(end.shell, f"{kept} && ip link add link {end.device} name {device} type vlan id {vlan}")
    except LinkError as error:
        if "Unknown device type" in str(error) or "not supported" in str(error):
            raise CapabilityError(f"vlan={vlan}: the kernel of {name} has no 802.1Q") from None
        raise
    change(end.shell, f"ip link set {device} up && ip addr add {upper.address} dev {device}")


def _impair(link: Link, setup: PathSetup, stack: ExitStack) -> None:
    """Add delay and loss at the far end of each flow, until ``stack`` is closed."""
    topology = link.combination.topology
    far = {b for _, b in topology.pairs}
    if far & {a for a, _ in topology.pairs}:
        raise CapabilityError(f"path= in topology {topology.name}: each end is a device under test, and none its peer")
    for end in (link.ends[index] for index in sorted(far)):
        try:
            stack.enter_context(impaired(end, setup.delay_s, setup.loss, AT_MOST_S))
        except UnsupportedError as error:
            raise CapabilityError(f"path=: {error}") from None


def _with_ipv6(link: Link, undo: UndoStack) -> Link:
    """Give each end its address of IPv6, and wait until the ends of each flow reach each other."""
    topology = link.combination.topology
    if topology.forwards:
        raise CapabilityError("family=6 in topology chain: Linux forwards IPv6 on all NICs of a node or on none")
    if link.path.mtu < IPV6_MTU:
        raise CapabilityError(f"family=6 needs an MTU of at least {IPV6_MTU}; this link has {link.path.mtu}")
    ends = tuple(replace(end, address=in_family(end.address, 6)) for end in link.ends)
    with doing("add addresses of IPv6"):
        undo.at_once(_add_address, ends)
        for a, b in topology.pairs:
            _await_answer(ends[a], ends[b])
    return replace(link, ends=ends)


def _add_address(end: End, undo: UndoStack) -> None:
    folder = f"/proc/sys/net/ipv6/conf/{end.device}"
    # An address stays on a device that a link-up takes down.
    wanted = {f"{folder}/disable_ipv6": "0", f"{folder}/keep_addr_on_down": "1"}
    found = end.shell.run("; ".join(f"cat {path}" for path in wanted)).stdout.split()
    if len(found) != len(wanted):
        raise CapabilityError(f"family=6: the kernel of {end.shell.name} has no IPv6 on {end.device}")
    steps = []
    for (path, value), before in zip(wanted.items(), found, strict=True):
        if before != value:
            what = f"{path.rpartition('/')[2]} of {end.device} on {end.shell.name}"
            steps += [undo_by(end, what, f"[ ! -e {path} ] || echo {before} > {path}", undo), f"echo {value} > {path}"]
    # Our addresses are not in use by others, so the kernel need not look for duplicates, which takes a second.
    steps.append(f"{adding_address(end, undo)} nodad")
    change(end.shell, " && ".join(steps))


def _answers(end: End, other: End) -> bool:
    ping = f"ping -n -q -c 1 -W 1 -I {end.device} {other.ip} >/dev/null 2>&1"
    return Deadline(ANSWER_TIMEOUT_S).wait_until(lambda: end.shell.run(ping).returncode == 0)


def _await_answer(end: End, other: End) -> None:
    if not _answers(end, other):
        raise LinkError(
            f"{end} does not reach {other} by IPv6 within {ANSWER_TIMEOUT_S:.0f} s, though it does by IPv4",
            f"look for a firewall that drops ICMPv6 on {end.shell.name} and {other.shell.name} (nft list ruleset)",
        )
