"""Run ping of iputils or busybox with one command line for both, and parse the output."""

from __future__ import annotations

import re

from pytest_pinet.errors import ConfigError, TrafficError
from pytest_pinet.execution.shell import Shell, last_line
from pytest_pinet.model.traffic import Ping, PingReport
from pytest_pinet.traffic.processes import guarded, run_watched, sign_of_life
from pytest_pinet.traffic.tool import Watch, check_whole

COUNT_MAX = 100_000
# The payload of the largest IPv4 packet.
SIZE_MAX = 65_507
# A packet carries its sending time. A smaller packet has no room for it, so that no round trip is printed.
SIZE_MIN = 16
INTERVAL_RANGE_S = (0.002, 60.0)
# How long after the last request an answer may come.
PATIENCE_S = 2
GRACE_S = 10.0
# "3 packets transmitted, 3 received, 0% packet loss"; busybox prints "3 packets received". "+1 errors" may follow.
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) (?:packets )?received")
# iputils prints a fourth value, mdev.
_TIMES = re.compile(r"min/avg/max(?:/mdev)? = ([\d.]+)/([\d.]+)/([\d.]+)(?:/([\d.]+))? ms")


def validate(ping: Ping) -> None:
    """Check the values. Raises ConfigError for impossible ones."""
    check_whole("count", ping.count, 1, COUNT_MAX)
    check_whole("size", ping.size, SIZE_MIN, SIZE_MAX, " bytes")
    low, high = INTERVAL_RANGE_S
    if not low <= ping.interval_s <= high:
        raise ConfigError(f"interval={ping.interval_s:g} s: expected {low:g} to {high:g} s")


def argv(ping: Ping, own_address: str, address: str) -> list[str]:
    """Return the command; packets are sent from ``own_address``."""
    # Not -w: with a deadline, iputils continues until the given number of answers has arrived.
    options = f"-q -c {ping.count} -i {ping.interval_s:g} -s {ping.size} -W {PATIENCE_S} -I {own_address}"
    return ["ping", *options.split(), address]


def parse(text: str) -> PingReport:
    """Parse the summary. Raises ValueError if it is missing, or if times are missing although answers arrived."""
    counts, times = _COUNTS.search(text), _TIMES.search(text)
    if counts is None:
        raise ValueError("it has no line '... packets transmitted, ... received'")
    if times is None and int(counts[2]):
        raise ValueError("it has no line '... min/avg/max ...'")
    low, mean, high, mdev = (
        (None if value is None else float(value) / 1e3 for value in times.groups()) if times else (None,) * 4
    )
    return PingReport(int(counts[1]), int(counts[2]), low, mean, high, mdev)


def measure(
    shell: Shell,
    ping: Ping,
    own_address: str,
    address: str,
    to: str,
    watch: Watch | None = None,
    patience: float = 1.0,
) -> tuple[PingReport, str]:
    """Ping ``address``, named ``to`` in messages. Return the report, and the text that it comes from. Raises LabError.

    ``watch`` is called throughout and can end the ping by raising. No ping is left running, whatever happens. A node
    with a slow clock may take ``patience`` times as long.
    """
    command = guarded(argv(ping, own_address, address), "", 0)
    done = run_watched(shell, command, "ping", (ping.seconds + PATIENCE_S) * patience, watch, GRACE_S)
    said = last_line(done.stderr, done.stdout)
    if done.returncode == 127:
        raise TrafficError(f"{shell.name} has no ping", f"on {shell.name}: install the package iputils-ping", said)
    try:
        report = parse(done.stdout)
    except ValueError as error:
        # A lost connection prints nothing, either.
        sign_of_life(shell, "at the end of the pings")
        raise TrafficError(
            f"ping on {shell.name} failed: {said or f'exit status {done.returncode}'} ({error})",
            f"look at the ping of {shell.name}, and at the addresses of the link",
            done.stdout + done.stderr,
        ) from None
    if not report.received:
        raise TrafficError(
            f"no answer from {to}: none of {report.sent} pings of {ping.size} bytes from {shell.name} was answered",
            f"check cable, switch port, MTU and firewall between {shell.name} and {to}",
            done.stdout + done.stderr,
        )
    return report, done.stdout
