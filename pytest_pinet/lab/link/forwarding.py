"""Forwarding between two NICs of one node, for the topology ``chain``."""

from __future__ import annotations

from pytest_pinet.errors import LinkError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link.end import End, change

REACH_TIMEOUT_S = 5.0


def set_up(dut: End, near: End, second: End, far: End, undo: UndoStack) -> None:
    """Make the node of ``dut`` and ``second`` forward between ``near`` and ``far``, and check the path.

    Only these two devices forward, not the whole node. ``undo`` reverts it. Raises LinkError.
    """
    for end in (dut, second):
        _forward(end, undo)
    _route(near, dut, far, undo)
    _route(far, second, near, undo)
    _check(near, far, dut)


def _forward(end: End, undo: UndoStack) -> None:
    setting = f"/proc/sys/net/ipv4/conf/{end.device}/forwarding"
    before = end.shell.run(f"cat {setting}").stdout.strip()
    if before == "1":
        return
    undo.add(
        f"forwarding of {end.device} on {end.shell.name}",
        lambda: change(end.shell, f"echo {before or 0} > {setting}"),
        end.shell.name,
    )
    change(end.shell, f"echo 1 > {setting}")
    if end.shell.run(f"cat {setting}").stdout.strip() != "1":
        raise LinkError(f"{end.shell.name} accepted forwarding on {end.device}, but {setting} is still not 1")


def _route(end: End, gateway: End, target: End, undo: UndoStack) -> None:
    route = f"{target.address.network} via {gateway.ip} dev {end.device}"
    gone = f"! ip route show {target.address.network} | grep -q ."
    undo.add(
        f"route to {target.address.network} on {end.shell.name}",
        lambda: change(end.shell, f"ip route del {route} || {gone}"),
        end.shell.name,
    )
    change(end.shell, f"ip route replace {route}")


def _check(near: End, far: End, dut: End) -> None:
    """Check that packets arrive, and that they pass a router: with a TTL of 1 they must not arrive."""
    ping = f"ping -n -q -c 1 -W 1 -I {near.device}"
    last = ""

    def reaches() -> bool:
        nonlocal last
        done = near.shell.run(f"{ping} {far.ip}")
        last = (done.stderr.strip() or done.stdout.strip() or "no answer").splitlines()[-1]
        return done.returncode == 0

    if not Deadline(REACH_TIMEOUT_S).wait_until(reaches):
        raise LinkError(
            f"{near} does not reach {far} through {dut.shell.name} within {REACH_TIMEOUT_S:.0f} s: {last}",
            f"on {dut.shell.name}: look for a firewall that drops what is forwarded (nft list ruleset)",
        )
    if near.shell.run(f"{ping} -t 1 {far.ip}").returncode == 0:
        raise LinkError(
            f"{near} reaches {far} without {dut.shell.name} in between", "check the cables of these three nodes"
        )
