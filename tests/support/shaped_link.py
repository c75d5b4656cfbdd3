"""Two network namespaces with a shaped cable between them, for tests of real traffic."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.local_shell import LocalProcess, LocalShell
from tests.support.namespaces import IP, ip

TC = "/usr/sbin/tc" if os.path.exists("/usr/sbin/tc") else "tc"  # noqa: PTH110


class NodeShell(LocalShell):
    """A shell in a namespace."""

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__(name)
        self.namespace = namespace

    def spawn(self, command: str) -> LocalProcess:
        return super().spawn(f"exec {IP} netns exec {self.namespace} /bin/sh -c {shlex.quote(command)}")


@dataclass(frozen=True)
class ShapedLink:
    """The ends ``dut`` and ``peer``, each with a device ``eth0`` and its address."""

    dut: NodeShell
    peer: NodeShell
    dut_address: str = "198.18.7.1"
    peer_address: str = "198.18.7.2"

    def shape(self, rate: str) -> None:
        """Shape both directions (``1gbit``).

        Ethernet overhead counts, so that TCP gets the same goodput as on a wire.
        """
        for shell in (self.dut, self.peer):
            tbf = f"tbf rate {rate} burst 128k latency 20ms overhead 24"
            subprocess.run([TC, "-n", shell.namespace, *f"qdisc replace dev eth0 root {tbf}".split()], check=True)

    def unshape(self) -> None:
        """Remove the shapers, so that the processor is the limit."""
        for shell in (self.dut, self.peer):
            # Fails without a shaper.
            subprocess.run(
                [TC, "-n", shell.namespace, "qdisc", "del", "dev", "eth0", "root"], check=False, capture_output=True
            )

    def carrier(self, up: bool) -> None:
        """Unplug the cable at the peer, or plug it in."""
        ip(f"-n {self.peer.namespace} link set eth0 {'up' if up else 'down'}")


@contextmanager
def shaped_link(rate: str = "200mbit") -> Iterator[ShapedLink]:
    """Set up the link, and remove it in the end."""
    names = [f"pinet-{side}-{os.getpid()}" for side in ("dut", "peer")]
    link = ShapedLink(NodeShell("dut-1", names[0]), NodeShell("peer-1", names[1]))
    for name in names:
        ip(f"netns add {name}")
    try:
        ip(f"link add eth0 netns {names[0]} type veth peer name eth0 netns {names[1]}")
        for name, address in zip(names, (link.dut_address, link.peer_address), strict=True):
            ip(f"-n {name} addr add {address}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
            ip(f"-n {name} link set lo up")
            # Disable offloads, so that the shaper counts segments as on a wire.
            subprocess.run(
                [IP, "netns", "exec", name, "ethtool", "-K", "eth0", "tso", "off", "gso", "off", "gro", "off"],
                check=False,
                capture_output=True,
            )
        link.shape(rate)
        yield link
    finally:
        for name in names:
            ip(f"netns del {name}")
