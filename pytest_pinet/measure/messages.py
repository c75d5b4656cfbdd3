"""What all probes with sockperf share: messages that one end sends and the other one answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_pinet.errors import CapabilityError
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import USUAL_S, Probe
from pytest_pinet.measure.link_result import tool_of_end
from pytest_pinet.traffic import sockperf
from pytest_pinet.traffic.exchange import exchanging, unreadable
from pytest_pinet.traffic.processes import await_traffic, overdue
from pytest_pinet.traffic.tool import Watch, check_whole

T = TypeVar("T")
# The smallest message has a header of sockperf.
LEAST_SIZE = 14


@dataclass(frozen=True)
class Messages(Probe):
    """Messages of ``size`` bytes from the device under test to its peer and back, for ``seconds``."""

    seconds: int = USUAL_S
    size: int = 64

    def check(self, largest: int) -> None:
        """Raise ConfigError for an impossible duration or size."""
        check_whole("duration", self.seconds, 1, 3600)
        check_whole("size", self.size, LEAST_SIZE, largest)

    def ask(
        self, link: Link, watch: Watch | None, mode: Sequence[str], udp: bool, read: Callable[[str], T]
    ) -> tuple[T, str, str]:
        """Send messages in this mode of sockperf. Return what ``read`` finds, all output, and the version of sockperf.

        Raises LabError, and CapabilityError for a family of IP that one of both ends lacks.
        """
        client, server = (tool_of_end(end, "sockperf") for end in (link.dut, link.peer))
        for one in (client, server):
            if self.setup.family == 6 and not sockperf.has_ipv6(one.version):
                raise CapabilityError(f"family=6: {one.version} of {one.shell.name} has no IPv6; sockperf 3.8 has it")

        def commands(port: int) -> tuple[list[str], list[str]]:
            there = ["-i", link.peer.ip, "-p", str(port), *([] if udp else ["--tcp"])]
            each = ["-t", str(self.seconds), "-m", str(self.size), "--client_ip", link.dut.ip, "--full-rtt"]
            return ["sockperf", "server", *there], ["sockperf", mode[0], *there, *each, *mode[1:]]

        lasts_s = self.seconds + sockperf.BESIDE_S
        with exchanging(server, client, commands, lasts_s, udp) as found:
            await_traffic(
                lambda: found.client.poll() is not None,
                (client.shell, server.shell),
                lasts_s,
                lambda late_s: overdue("sockperf", client.shell, lasts_s + late_s),
                watch=watch,
            )
        try:
            return read(found.done.stdout), found.text, client.version
        except ValueError as error:
            raise unreadable("sockperf", client.shell, found.done, str(error)) from None
