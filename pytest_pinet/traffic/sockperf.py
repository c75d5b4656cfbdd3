"""The modes of sockperf 3.7, and the parser of its output. Its exit status is always 0."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Colours stand around some lines.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RUN = re.compile(r"\[Valid Duration\] RunTime=([\d.]+) sec; SentMessages=(\d+); ReceivedMessages=(\d+)")
# A line of the full log: number, time sent, time received (both s), round trip (us).
_TRIP = re.compile(r"^\d+, [\d.]+, [\d.]+, ([\d.]+)$", re.MULTILINE)
# The log can lack a message of the count (seen: 4,531 of 4,532): a probe without a round trip counts as late. With
# fewer than this share, the output was cut off.
_LEAST_LOGGED = 0.99
# Before the first message, sockperf warms up for 0.4 s, and it needs some time to begin and to print.
BESIDE_S = 2.0
# Sends the next message when the answer to the last one has arrived.
PING_PONG = ("ping-pong",)


def under_load(rate: int) -> tuple[str, ...]:
    """Return the mode that sends at a fixed rate, whatever the answers, and prints each round trip."""
    return "under-load", "--mps", str(rate), "--reply-every", "1", "--full-log", "/dev/stdout"


def has_ipv6(version: str) -> bool:
    """Return whether this version knows IPv6, as 3.8 does. Debian 12 has 3.7."""
    return [int(part) for part in version.split()[-1].split(".") if part.isdigit()] >= [3, 8]


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
