"""Find the iperf3 of an end, and refuse one that is too old."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_pinet.errors import TrafficError, UnsupportedError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.traffic.processes import ASK_TIMEOUT, TIMEOUTS

_TEXT = re.compile(r"\biperf (\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, order=True)
class Version:
    """An iperf3 version such as 3.9, 3.12 or 3.17.1."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse ``iperf3 --version`` or the JSON's ``start.version`` (both contain ``iperf 3.12``).

        Raises ValueError.
        """
        match = _TEXT.search(text)
        if match is None:
            raise ValueError(f"{text[:80]!r} does not name an iperf version such as 'iperf 3.12'")
        major, minor, patch = match.groups()
        return cls(int(major), int(minor), int(patch or 0))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + (f".{self.patch}" if self.patch else "")

    @property
    def threaded(self) -> bool:
        """Whether each stream has a thread (3.16 and newer).

        Goodput of CPU-bound boards is not comparable with older versions.
        """
        return self >= Version(3, 16)


# Older versions repeat JSON keys, so that one direction is lost, and do not say why they failed.
OLDEST = Version(3, 12)


# The last two lines are the form of timeout and the congestion controls. Each may be empty.
_ASK = (
    f"iperf3 --version; r=$?; echo; {ASK_TIMEOUT} || echo; "
    "cat /proc/sys/net/ipv4/tcp_available_congestion_control 2>/dev/null || echo; exit $r"
)


@dataclass(frozen=True)
class Tool:
    """The iperf3 of an end, the congestion controls that its kernel has loaded, and its form of ``timeout``."""

    version: Version
    congestion: frozenset[str]
    timeout: str = TIMEOUTS[0]


def read_tool(shell: Shell) -> Tool:
    """Return the iperf3 of an end. Raises TrafficError if there is none."""
    done = shell.run(_ASK)
    try:
        version = Version.parse(done.stdout)
    except ValueError:
        if done.returncode == 127:
            raise TrafficError(
                f"{shell.name} has no iperf3", f"on {shell.name}: install the package iperf3", done.stderr
            ) from None
        raise TrafficError(
            f"'iperf3 --version' on {shell.name} gives no version (exit status {done.returncode})",
            f"install iperf3 {OLDEST} or newer on {shell.name}",
            done.stdout + done.stderr,
        ) from None
    timeout, congestion = ["", "", *done.stdout.splitlines()][-2:]
    return Tool(version, frozenset(congestion.split()), timeout if timeout in TIMEOUTS else "")


def too_old(version: Version) -> str | None:
    """Return the sentence about an iperf3 that is too old; None for another one."""
    if version >= OLDEST:
        return None
    return f"iperf3 {version} is older than {OLDEST}, which Debian 12 has: Debian 11 (iperf3 3.9) is too old"


def supported_tool(shell: Shell) -> Tool:
    """Return the iperf3 of an end. Raises TrafficError if there is none, and UnsupportedError if it is too old."""
    tool = read_tool(shell)
    if (message := too_old(tool.version)) is not None:
        raise UnsupportedError(f"{shell.name}: {message}")
    return tool
