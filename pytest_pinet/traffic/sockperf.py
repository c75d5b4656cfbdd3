"""The command lines of sockperf 3.7, and the parser of its output. Its exit status is always 0."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pytest_pinet.errors import CapabilityError
from pytest_pinet.traffic.exchange import Commands, ToolOfEnd, exchange, unreadable
from pytest_pinet.traffic.tool import Watch

T = TypeVar("T")

# Colours stand around some lines.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RUN = re.compile(r"\[Valid Duration\] RunTime=([\d.]+) sec; SentMessages=(\d+); ReceivedMessages=(\d+)")
# A line of the full log: number, time sent, time received (both s), round trip (us).
_TRIP = re.compile(r"^\d+, [\d.]+, [\d.]+, ([\d.]+)$", re.MULTILINE)
# The log can lack a message of the count (seen: 4,531 of 4,532): a probe without a round trip counts as late. With
# fewer than this share, the output was cut off.
_LEAST_LOGGED = 0.99
# The first version with IPv6. Debian has 3.7.
IPV6 = [3, 8]
# Before the first message, sockperf warms up for 0.4 s, and it needs some time to begin and to print.
BESIDE_S = 2.0


def server_argv(address: str, port: int, udp: bool) -> list[str]:
    """Return the server, which answers until it is stopped."""
    return ["sockperf", "server", "-i", address, "-p", str(port), *([] if udp else ["--tcp"])]


def ping_pong_argv(own: str, address: str, port: int, seconds: int, size: int, udp: bool) -> list[str]:
    """Return the client that sends the next message when the answer to the last one has arrived."""
    words = ["sockperf", "ping-pong", "-i", address, "-p", str(port), "-t", str(seconds), "-m", str(size)]
    return [*words, "--client_ip", own, "--full-rtt", *([] if udp else ["--tcp"])]


def under_load_argv(own: str, address: str, port: int, seconds: int, size: int, rate: int) -> list[str]:
    """Return the client that sends at a fixed rate over UDP, whatever the answers, and prints each round trip."""
    words = ["sockperf", "under-load", "-i", address, "-p", str(port), "-t", str(seconds), "-m", str(size)]
    words += ["--mps", str(rate), "--reply-every", "1", "--client_ip", own, "--full-rtt"]
    return [*words, "--full-log", "/dev/stdout"]


def ask(
    server: ToolOfEnd,
    client: ToolOfEnd,
    commands: Commands,
    seconds: float,
    watch: Watch | None,
    udp: bool,
    read: Callable[[str], T],
    family: int = 4,
) -> tuple[T, str]:
    """Run a server, and a client for so many seconds. Return what ``read`` finds, and all output.

    Raises LabError, and CapabilityError for a ``family`` of IP that one of the two lacks.
    """
    for one in (client, server):
        version = [int(part) for part in one.version.split()[-1].split(".") if part.isdigit()]
        if family == 6 and version < IPV6:
            raise CapabilityError(f"family=6: {one.version} of {one.shell.name} has no IPv6; sockperf 3.8 has it")
    done, raw = exchange(server, client, commands, seconds + BESIDE_S, watch, udp)
    try:
        return read(done.stdout), raw
    except ValueError as error:
        raise unreadable("sockperf", client.shell, done, str(error)) from None


@dataclass(frozen=True)
class Trips:
    """The round trips (s) of the probes of one connection, how many were sent, and for how long."""

    seconds: float
    sent: int
    rtts: tuple[float, ...]


def trips(text: str) -> Trips:
    """Return the round trips. Raises ValueError, which says what is missing."""
    text = _COLOUR.sub("", text)
    run = _valid(text)
    rtts = tuple(float(one) / 1e6 for one in _TRIP.findall(text))
    if not _LEAST_LOGGED * int(run[3]) <= len(rtts) <= int(run[3]):
        raise ValueError(f"it has {len(rtts)} round trips, but {run[3]} messages were received")
    return Trips(float(run[1]), int(run[2]), rtts)


def transactions(text: str) -> float:
    """Return the answers for each second. Raises ValueError, which says what is missing."""
    run = _valid(_COLOUR.sub("", text))
    return int(run[3]) / float(run[1])


def _valid(text: str) -> re.Match[str]:
    """Return the line on the time that counts: seconds, sent and received messages."""
    run = _RUN.search(text)
    if run is None or not float(run[1]):
        errors = [line for line in text.splitlines() if "ERROR" in line or "No messages were received" in line]
        raise ValueError(errors[0].removeprefix("sockperf: ") if errors else "it has no line '[Valid Duration] ...'")
    if not int(run[3]):
        raise ValueError("no message was answered")
    return run
