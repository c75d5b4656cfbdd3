"""Takes the carrier of the device under test away from the far end of its cable, and gives it back.

The device under test itself is not touched: to take it down and up opens its driver again, which heals the faults that
a replugged cable shows.
"""

from __future__ import annotations

from pytest_pinet.errors import CapabilityError
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link.end import End, change, undo_by
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.switch.switchport import Capability

# How much longer than the interruption the peer may take for its commands.
_ANSWER_S = 20.0


def check(link: Link) -> None:
    """Check that the carrier may be taken away. Raises CapabilityError, which skips a test."""
    topology, dut, peer = link.combination.topology.name, link.dut, link.peer
    if topology != "pair":
        raise CapabilityError(f"topology {topology}: the carrier is taken away only from a pair")
    if dut.carries_management:
        raise CapabilityError(f"{dut} carries the ssh connection of this run, so its carrier is not taken away")
    # Other power switches have ports of other kinds.
    feeding = getattr(getattr(dut.session.strategy, "power", None), "port", None)
    if (getattr(feeding, "switch", ""), getattr(feeding, "interface", "")) == (dut.port.switch, dut.port.port):
        raise CapabilityError(f"port {dut.port} also feeds {dut.shell.name} (PoE), so it is not taken down")
    if not _by_port(link) and (peer.carries_management or peer.endpoint.node.runner):
        raise CapabilityError(
            f"switch {dut.port.switch} cannot bring a port down, and {peer} carries the ssh connection of this run"
        )


def _by_port(link: Link) -> bool:
    return Capability.ADMIN in link.switches[link.dut.port.switch].capabilities


def keep_neighbours(link: Link, undo: UndoStack) -> None:
    """Make the MAC address of each end permanent at the other end, until ``undo``, also after a crash.

    Without a carrier, the kernel forgets the address, and then asks for it only once a second.
    """
    for own, other in ((0, 1), (1, 0)):
        end = link.ends[own]
        where = f"{link.ends[other].ip} dev {end.device}"
        gone = f"! ip neigh show {where} | grep -q PERMANENT"
        kept = undo_by(
            end, f"neighbour {where} on {end.shell.name}", f"ip neigh del {where} 2>/dev/null || {gone}", undo
        )
        change(end.shell, f"{kept} && {_permanent(end, link, other)}")


def _permanent(end: End, link: Link, other: int) -> str:
    mac = link.states[other].mac
    return f"ip neigh replace {link.ends[other].ip} lladdr {mac} dev {end.device} nud permanent"


def interrupt(link: Link, seconds: float, undo: UndoStack) -> str:
    """Take the carrier away for so many seconds. Return what did it; ``undo`` gives the carrier back, too.

    The switch port of the device under test goes down, if the switch can do that, else the device of its peer.
    Raises LinkError, SwitchError.
    """
    port, peer = link.dut.port, link.peer
    if _by_port(link):
        link.switches[port.switch].interrupt(port.port, seconds, undo)
        return f"port {port.port} of switch {port.switch} was down"
    # One remote command, so that the device comes up again even if the runner is killed meanwhile. A device that goes
    # down forgets its neighbours.
    steps = f"ip link set {peer.device} down; sleep {seconds:g}; ip link set {peer.device} up"
    undo.add(
        f"{peer.device} up on {peer.shell.name}",
        lambda: change(peer.shell, f"ip link set {peer.device} up"),
        peer.shell.name,
    )
    change(peer.shell, f"{steps} && {_permanent(peer, link, 0)}", seconds + _ANSWER_S)
    return f"{peer.device} of {peer.shell.name} was down"
