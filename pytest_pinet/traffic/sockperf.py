"""The command lines of sockperf 3.7, and the parser of its output. Its exit status is always 0."""

from __future__ import annotations

import re

# Colours stand around some lines.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RUN = re.compile(r"\[Valid Duration\] RunTime=([\d.]+) sec; SentMessages=(\d+); ReceivedMessages=(\d+)")
VERSION = "sockperf --version | tr -d '\\033' | sed -n 's/.*version \\([0-9][0-9.]*\\).*/sockperf \\1/p'"
PACKAGE = "sockperf"
# Before the first message, sockperf warms up for 0.4 s, and it needs some time to begin and to print.
BESIDE_S = 2.0


def server_argv(address: str, port: int, udp: bool) -> list[str]:
    """Return the server, which answers until it is stopped."""
    return ["sockperf", "server", "-i", address, "-p", str(port), *([] if udp else ["--tcp"])]


def ping_pong_argv(own: str, address: str, port: int, seconds: int, size: int, udp: bool) -> list[str]:
    """Return the client that sends the next message when the answer to the last one has arrived."""
    words = ["sockperf", "ping-pong", "-i", address, "-p", str(port), "-t", str(seconds), "-m", str(size)]
    return [*words, "--client_ip", own, "--full-rtt", *([] if udp else ["--tcp"])]


def transactions(text: str) -> float:
    """Return the answers for each second. Raises ValueError, which says what is missing."""
    text = _COLOUR.sub("", text)
    run = _RUN.search(text)
    if run is None or not float(run[1]):
        errors = [line for line in text.splitlines() if "ERROR" in line or "No messages were received" in line]
        raise ValueError(errors[0].removeprefix("sockperf: ") if errors else "it has no line '[Valid Duration] ...'")
    if not int(run[3]):
        raise ValueError("no message was answered")
    return int(run[3]) / float(run[1])
