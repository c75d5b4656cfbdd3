"""The command lines of one iperf3 run, and what each version of iperf3 can do.

The client runs on the receiving end with ``-R``, so that the intervals in its output are the receiver's. A sender's
intervals count bytes that are still in its socket buffer (5.2 Mbit/s steps in 100 ms intervals, measured) and exceed
the link. ``end.sum_sent`` still has the sender's retransmits. In a bidirectional run the client runs on the device
under test, and the server's own output has the intervals of what the device sent. The client passes window, MSS,
bitrate, length and congestion control to the server; they apply to the sender under ``-R``, too (seen with ``ss -ti``,
3.12).

A sender with a virtual clock (an emulated board) is the client itself: the length of the traffic and the counted
intervals are then in its time.

``-O`` is never used: it merges intervals in builds with hardened linking (facts: 8 of 12 runs of Debian's 3.12).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pytest_pinet.errors import ConfigError, ToolError, UnsupportedError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, Traffic
from pytest_pinet.traffic.processes import (
    ASK_TIMEOUT,
    CONNECT_TIMEOUT_S,
    GRACE_S,
    LIFETIME_S,
    LISTENING,
    TIMEOUTS,
    begin_at,
    guarded,
    is_listening,
)

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
    """Return the iperf3 of an end. Raises ToolError if there is none."""
    done = shell.run(_ASK)
    try:
        version = Version.parse(done.stdout)
    except ValueError:
        if done.returncode == 127:
            raise ToolError(
                f"{shell.name} has no iperf3", f"on {shell.name}: install the package iperf3", done.stderr
            ) from None
        raise ToolError(
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
    """Return the iperf3 of an end. Raises ToolError if there is none, and UnsupportedError if it is too old."""
    tool = read_tool(shell)
    if (message := too_old(tool.version)) is not None:
        raise UnsupportedError(f"{shell.name}: {message}")
    return tool


# Limits of iperf3 (iperf.h), as in 3.12. The lowest MSS is the kernel's (TCP_MIN_MSS).
STREAMS_MAX = 128
SECONDS_MAX = 86_400
INTERVAL_MIN_S = 0.1
MSS_RANGE = (88, 9216)
WINDOW_RANGE = (1, 512 * 1024**2)
TCP_LENGTH_RANGE = (1, 1024**2)
AFFINITY_RANGE = (0, 1023)
UDP_LENGTH_RANGE = (16, 65_507)
# The kernel's TCP_CA_NAME_MAX is 16 with the final zero.
_CONGESTION = re.compile(r"[A-Za-z0-9_-]{1,15}")


def validate(traffic: Traffic) -> None:
    """Check values and combinations that no iperf3 accepts. Raises ConfigError."""
    _range("streams", traffic.streams, (1, STREAMS_MAX))
    if not math.isfinite(traffic.duration_s) or traffic.duration_s <= 0:
        raise ConfigError(f"duration={traffic.duration_s:g} s: expected more than 0 s")
    warmup = WARMUP_CAP_S if traffic.warmup_s is None else traffic.warmup_s
    if not math.isfinite(warmup) or warmup < 0 or 0 < warmup < INTERVAL_MIN_S:
        raise ConfigError(f"warmup={warmup:g} s: expected 0 s, or at least {INTERVAL_MIN_S:g} s")
    if traffic.duration_s + warmup > SECONDS_MAX:
        raise ConfigError(f"duration={traffic.duration_s:g} s: with the warm-up, iperf3 takes at most {SECONDS_MAX} s")
    for name, rate in (("bitrate", traffic.bitrate), ("peer_bitrate", traffic.peer_bitrate)):
        if rate is not None and not (math.isfinite(rate.bps) and rate.bps >= 1):
            raise ConfigError(f"{name}={rate.bps:g} bit/s: expected at least 1 bit/s; leave it out for no limit")
    if traffic.apart and traffic.direction is not Direction.BIDIR:
        word = "peer_bitrate" if traffic.peer_bitrate is not None else "opposed"
        instead = "use bitrate=" if word == "peer_bitrate" else "leave it out"
        raise ConfigError(
            f"{word} needs both directions at once (direction='bidir'); "
            f"with direction={str(traffic.direction)!r}, {instead}"
        )
    _range("affinity", traffic.affinity, AFFINITY_RANGE)
    _range("window", traffic.window, WINDOW_RANGE, " bytes")
    _range("length", traffic.length, UDP_LENGTH_RANGE if traffic.udp else TCP_LENGTH_RANGE, " bytes")
    if traffic.udp:
        _validate_udp(traffic)
    else:
        _range("mss", traffic.mss, MSS_RANGE, " bytes")
    if traffic.congestion is not None and not _CONGESTION.fullmatch(traffic.congestion):
        raise ConfigError(
            f"congestion={traffic.congestion!r}: expected the kernel's name of a congestion control, such as 'cubic'"
        )


def _validate_udp(traffic: Traffic) -> None:
    if traffic.bitrate is None:
        raise ConfigError("udp needs a bitrate such as '900M': without it iperf3 sends 1 Mbit/s, too little for a link")
    if traffic.mss is not None:
        raise ConfigError(f"mss={traffic.mss}: UDP has no MSS; 'length' sets the size of its datagrams")
    if traffic.congestion is not None:
        raise ConfigError(f"congestion={traffic.congestion!r}: UDP has no congestion control")


def _range(name: str, value: int | None, allowed: tuple[int, int], unit: str = "") -> None:
    low, high = allowed
    if value is not None and not low <= value <= high:
        raise ConfigError(f"{name}={value}{unit}: expected {low} to {high}{unit}")


# The shortest interval of iperf3, used if the report stays small: about 300 bytes for each stream and interval, kept in
# memory and printed after the traffic. The intervals cost 0.03 % of a core (1 stream) to 0.1 % (10), and change no
# goodput (benchmarks.observer).
FINE_S = INTERVAL_MIN_S
FINE_STREAM_SECONDS = 120
INTERVAL_S = 0.5
# How much longer a run may take if an end has a virtual clock; a clock with a fifth of the wall clock's pace was seen.
SLOW_CLOCK_S = 60.0
# A server prints this line, with the uptime of its end, when the first byte of traffic can come.
FLOWING = "pinet: flowing"


@dataclass(frozen=True)
class ProcessSide:
    """The end of one process: its address on the measured link, and its form of TIMEOUTS (empty: it has none).

    ``at_end`` are the words that it runs after the traffic and before its report travels.
    """

    address: str
    timeout: str = TIMEOUTS[0]
    at_end: str = ""


@dataclass(frozen=True)
class Iperf3Run:
    """One iperf3 run; ``congestion`` None leaves the kernels' default.

    ``warmup_cap_s`` is the longest warm-up that may be detected. If several runs begin at once, ``begin_s`` is the
    uptime of the client's end at which this run begins, and ``reports_begin`` makes the server report when its streams
    are connected. iperf3 may run ``grace_s`` longer than the traffic.
    With ``sends`` the client is the sender, so that one direction is measured in the sender's time. ``quiet``: an end
    has a virtual clock, so the run takes longer and each probe costs some of its time.
    """

    traffic: Traffic
    port: int
    client: ProcessSide
    server: ProcessSide
    congestion: str | None = None
    warmup_cap_s: float = WARMUP_CAP_S
    begin_s: float | None = None
    reports_begin: bool = False
    sends: bool = False
    quiet: bool = False
    grace_s: float = GRACE_S
    # Of the flow; None: the kernel chooses it.
    source_port: int | None = None

    @property
    def patience_s(self) -> float:
        """How much longer than the traffic the run may take."""
        return self.grace_s + (SLOW_CLOCK_S if self.quiet else 0.0)

    @property
    def seconds(self) -> int:
        """The seconds of traffic, rounded up: iperf3 takes only whole seconds and cuts off fractions."""
        return max(1, math.ceil(self._warmup_s + self.traffic.duration_s - 1e-9))

    @property
    def middle_s(self) -> float:
        """The middle of the counted time."""
        return (self._warmup_s + self.seconds) / 2

    @property
    def _warmup_s(self) -> float:
        return self.warmup_cap_s if self.traffic.warmup_s is None else self.traffic.warmup_s

    @property
    def interval_s(self) -> float:
        """The shortest interval with which the report stays small. A fixed warm-up ends exactly with an interval."""
        streams = self.traffic.streams * len(self.traffic.direction.parts)
        wanted = FINE_S if streams * self.seconds <= FINE_STREAM_SECONDS else INTERVAL_S
        warmup = self.traffic.warmup_s
        if not warmup:
            return wanted
        count = min(round(warmup / wanted), int(warmup / INTERVAL_MIN_S + 1e-9))
        return round(warmup / max(1, count), 3)


def client_is_dut(direction: Direction, sends: bool = False) -> bool:
    """Return whether the client runs on the DUT: if the DUT receives (or ``sends``), and in bidirectional runs."""
    return direction is not (Direction.RX if sends else Direction.TX)


def server_argv(run: Iperf3Run) -> list[str]:
    """Return the command of a server for this one run."""
    argv = ["iperf3", "-s", "-1", "-J", "-i", f"{run.interval_s:g}", "-p", str(run.port), "-B", run.server.address]
    return argv + _keep_on(run.traffic, not client_is_dut(run.traffic.direction, run.sends))


def client_argv(run: Iperf3Run) -> list[str]:
    """Return the command of the client, which sets everything about the traffic."""
    traffic = run.traffic
    argv = ["iperf3", "-c", run.server.address, "-J", "-i", f"{run.interval_s:g}", "-p", str(run.port)]
    argv += ["-B", run.client.address, "-t", str(run.seconds), "--connect-timeout", f"{CONNECT_TIMEOUT_S * 1000:.0f}"]
    argv += ["--bidir"] if traffic.direction is Direction.BIDIR else [] if run.sends else ["-R"]
    argv += ["-P", str(traffic.streams)]
    if run.source_port is not None:
        argv += ["--cport", str(run.source_port)]
    if traffic.udp:
        argv += ["-u"]
    if traffic.bitrate is not None:
        argv += ["-b", f"{traffic.bitrate.bps:.0f}"]
    if run.congestion is not None:
        argv += ["-C", run.congestion]
    for option, value in (("-w", traffic.window), ("-M", traffic.mss), ("-l", traffic.length)):
        if value is not None:
            argv += [option, str(value)]
    return argv + _keep_on(traffic, client_is_dut(traffic.direction, run.sends))


def client_command(run: Iperf3Run) -> str:
    """Return the client's shell command line."""
    lifetime_s = run.seconds + LIFETIME_S
    return begin_at(run.begin_s) + guarded(client_argv(run), run.client.timeout, lifetime_s, at_end=run.client.at_end)


def server_command(run: Iperf3Run) -> str:
    """Return the server's shell command line, which prints LISTENING before the JSON once clients can connect.

    The command line polls /proc itself: polling over ssh would take longer than the start of the server.
    """
    lives = "kill -0 $p 2>/dev/null"
    wait = f"while {lives} && ! {is_listening(run.port)}; do sleep 0.02; done; {lives} && echo '{LISTENING}'; "
    if run.reports_begin:
        # 01 = ESTABLISHED, also for a UDP socket with a peer. For TCP the first such socket is the control connection.
        table, least = ("udp", 1) if run.traffic.udp else ("tcp", 2)
        table += "6" if ":" in run.server.address else ""
        streams = f"grep -c ':{run.port:04X} [0-9A-F]*:[0-9A-F]* 01' /proc/net/{table}"
        wait += f'while {lives} && [ "$({streams})" -lt {least} ]; do sleep 0.01 2>/dev/null || :; done; '
        wait += f"{lives} && read -r up x </proc/uptime && echo '{FLOWING}' $up; "
    lifetime_s = run.seconds + LIFETIME_S + CONNECT_TIMEOUT_S + (SLOW_CLOCK_S if run.quiet else 0.0)
    return guarded(server_argv(run), run.server.timeout, lifetime_s, wait, run.server.at_end)


def _keep_on(traffic: Traffic, is_dut: bool) -> list[str]:
    """Return the option that pins the process on the device under test to a CPU."""
    return ["-A", str(traffic.affinity)] if is_dut and traffic.affinity is not None else []
