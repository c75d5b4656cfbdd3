"""ping of iputils or busybox: one command line for both, and what they print."""

from __future__ import annotations

import re

from pytest_pinet.errors import ConfigError, TrafficError
from pytest_pinet.model.ping import Ping, PingReport
from pytest_pinet.shell import Shell

COUNT_MAX = 100_000
# The largest IPv4 packet, without its headers.
SIZE_MAX = 65_507
INTERVAL_RANGE_S = (0.002, 60.0)
# How long after the last one was sent an answer may come.
PATIENCE_S = 2
GRACE_S = 10.0
# "3 packets transmitted, 3 received, 0% packet loss", busybox "3 packets received"; "+1 errors" may stand between.
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) (?:packets )?received")
# iputils has a fourth figure, mdev.
_TIMES = re.compile(r"min/avg/max(?:/mdev)? = ([\d.]+)/([\d.]+)/([\d.]+)(?:/([\d.]+))? ms")


def validate(ping: Ping) -> None:
    """Refuse values that make no sense. Raises ConfigError."""
    if not 1 <= ping.count <= COUNT_MAX:
        raise ConfigError(f"count={ping.count}: expected 1 to {COUNT_MAX}")
    if not 0 <= ping.size <= SIZE_MAX:
        raise ConfigError(f"size={ping.size} bytes: expected 0 to {SIZE_MAX} bytes")
    low, high = INTERVAL_RANGE_S
    if not low <= ping.interval_s <= high:
        raise ConfigError(f"interval={ping.interval_s:g} s: expected {low:g} to {high:g} s")


def command(ping: Ping, own_address: str, address: str) -> str:
    """The command line; ``own_address`` makes the packets leave by the measured interface."""
    # Not -w: with a deadline, that of iputils goes on until so many came back.
    options = f"-q -c {ping.count} -i {ping.interval_s:g} -s {ping.size} -W {PATIENCE_S} -I {own_address}"
    return f"LC_ALL=C ping {options} {address}"


def parse(text: str) -> PingReport:
    """Read the summary. Raises ValueError where there is none."""
    counts, times = _COUNTS.search(text), _TIMES.search(text)
    if counts is None:
        raise ValueError("it has no line '... packets transmitted, ... received'")
    low, mean, high, mdev = (
        (None if value is None else float(value) / 1e3 for value in times.groups()) if times else (None,) * 4
    )
    return PingReport(int(counts[1]), int(counts[2]), low, mean, high, mdev)


def measure(shell: Shell, ping: Ping, own_address: str, address: str, to: str) -> tuple[PingReport, str]:
    """Ping ``address``, which messages call ``to``; the report, and the text that it comes from. Raises LabError."""
    done = shell.run(command(ping, own_address, address), timeout_s=ping.seconds + PATIENCE_S + GRACE_S)
    said = (done.stderr.strip() or done.stdout.strip()).partition("\n")[0]
    if done.returncode == 127:
        raise TrafficError(f"{shell.name} has no ping", f"on {shell.name}: install the package iputils-ping", said)
    try:
        report = parse(done.stdout)
    except ValueError:
        raise TrafficError(
            f"ping on {shell.name} failed: {said or f'exit status {done.returncode}'}",
            f"look at the ping of {shell.name}, and at the addresses of the link",
            done.stdout + done.stderr,
        ) from None
    if not report.received:
        raise TrafficError(
            f"no answer from {to}: none of {report.sent} pings of {ping.size} bytes from {shell.name} came back",
            f"check cable, switch port, MTU and firewall between {shell.name} and {to}",
            done.stdout + done.stderr,
        )
    return report, done.stdout
