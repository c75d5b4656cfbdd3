"""A fresh link-up: take the link of the device under test down and up, and check that it is as before."""

from __future__ import annotations

from pytest_pinet.errors import LabError, LinkError
from pytest_pinet.evidence.interface import read_interface
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.link import link_checks
from pytest_pinet.lab.link.end import change, read_surroundings
from pytest_pinet.lab.link.link import Link

# The first packets are lost until the switch has learnt the MAC addresses again.
ANSWER_TIMEOUT_S = link_checks.REACH_TIMEOUT_S


def can_bounce(link: Link) -> bool:
    """Return whether the link of the device under test may go down.

    It must stay up if it carries our ssh, is a Wi-Fi association, or has routes.
    """
    if link.combination.topology.forwards or link.dut.carries_management:
        return False
    facts, key = link.dut.session.facts, f"wireless {link.dut.device}"
    if key not in facts:
        facts[key] = read_surroundings(link.dut).wireless
    return not facts[key]


def await_links(link: Link, same: bool = True) -> None:
    """Wait until every end has a carrier again. With ``same``, its speed and MTU must be unchanged.

    Raises LinkError if a carrier does not come back or a value has changed, InvalidMeasurement for a wrong speed.
    """
    deadline = Deadline(link_checks.CARRIER_TIMEOUT_S)
    for end, state in zip(link.ends, link.states, strict=True):
        switch = link.switches[end.port.switch]
        now = link_checks.await_carrier(end, read_interface(end.shell, end.device), switch, deadline)
        link_checks.check_negotiation(end, now)
        if same and (now.speed_mbps, now.mtu) != (state.speed_mbps, state.mtu):
            raise LinkError(
                f"{end} was {state} and came back as {now} after its link was down",
                f"look at the kernel log of {end.shell.name}",
            )


def without_carrier(link: Link) -> frozenset[int]:
    """Return the ends that have no carrier now, by their number. Empty if an end does not answer."""
    try:
        states = [read_interface(end.shell, end.device) for end in link.ends]
    except LabError:
        return frozenset()
    return frozenset(index for index, state in enumerate(states) if not state.carrier)


def bounce(link: Link) -> None:
    """Take the link of the device under test down and up. Raises LinkError when it does not come back as it was.

    It is one remote command, so that the link is up again even if the runner is killed meanwhile. The kernel keeps the
    IPv4 address and its route on a device that is down.
    """
    end = link.dut
    device = end.device
    change(end.shell, f"ip link set {device} down; ip link set {device} up")
    await_links(link)
    ping = f"ping -n -q -c 1 -W 1 -I {device} {link.peer.ip} >/dev/null"
    if not Deadline(ANSWER_TIMEOUT_S).wait_until(lambda: end.shell.run(ping).returncode == 0):
        raise LinkError(
            f"{end} does not reach {link.peer} any more, {ANSWER_TIMEOUT_S:.0f} s after its link was taken down and up",
            f"look at spanning tree on port {end.port}, and at the kernel log of {end.shell.name}",
        )
