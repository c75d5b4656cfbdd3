"""Find the iperf3 of an end, and check before traffic starts that its version has all features."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pytest_pinet.errors import TrafficError, UnsupportedError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.processes import ASK_TIMEOUT, TIMEOUTS

_TEXT = re.compile(r"\biperf (\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, order=True)
class Version:
    """An iperf3 version such as 3.9, 3.10 or 3.17.1."""

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


@dataclass(frozen=True)
class Iperf3Feature:
    """A feature that not every iperf3 has. ``needs`` returns whether a Traffic needs it."""

    option: str
    since: Version
    why: str
    needs: Callable[[Traffic], bool]


# Versions come from the release notes. --bidir counts only from 3.11 because of recorded outputs. Features of 3.7 and
# all later versions (-R -P -w -M -l -b -u -C -B -i --connect-timeout -1 -J) need no line.
FEATURES: tuple[Iperf3Feature, ...] = (
    Iperf3Feature("iperf3", Version(3, 7), "pinet does not know the output of older versions", lambda _: True),
    Iperf3Feature(
        "--bidir",
        Version(3, 11),
        "3.7 to 3.10 repeat JSON keys, so that one direction is lost",
        lambda traffic: traffic.direction is Direction.BIDIR,
    ),
)


def check(traffic: Traffic, client: Version, server: Version, names: tuple[str, str]) -> None:
    """Check that both iperf3 have the necessary features. ``names`` are the names of the ends, in the same order.

    Raises UnsupportedError with the option, both versions found and the version needed.
    """
    for feature in FEATURES:
        if feature.needs(traffic) and min(client, server) < feature.since:
            raise UnsupportedError(
                f"{feature.option} needs iperf3 {feature.since} or newer on both ends ({feature.why}): "
                f"{names[0]} has {client}, {names[1]} has {server}"
            )


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
            f"install iperf3 3.7 or newer on {shell.name}",
            done.stdout + done.stderr,
        ) from None
    timeout, congestion = ["", "", *done.stdout.splitlines()][-2:]
    return Tool(version, frozenset(congestion.split()), timeout if timeout in TIMEOUTS else "")
