"""Explain why an iperf3 failed, from its output: one sentence, and who must act.

The exit status alone is not enough: with ``-J``, 3.12 and 3.13 exit 0 on every error, and 3.19 and newer exit 0 after a
signal. Then their JSON has an ``error``. Standard error does not decide: a good run may print warnings there, of iperf3
itself (a UDP length above the MSS) or of the system.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.errors import LabError, LinkError, PinetError, SshError, ToolError, TrafficError, UnsupportedError
from pytest_pinet.execution.shell import own_lines
from pytest_pinet.traffic.iperf3_json import BadJson, number

# The longest line or output in a report, in characters.
_LONGEST = 4000


def partial(stdout: str) -> str:
    """Return the rates of all intervals in a failed process's output, one line per direction; empty if there are none.

    Accepts any text, since a process that is killed may print anything.
    """
    try:
        report = json.loads(stdout)
    except (ValueError, RecursionError):
        return ""
    intervals = report.get("intervals") if isinstance(report, dict) else None
    rates: dict[str, list[str]] = {}
    for interval in intervals if isinstance(intervals, list) else ():
        for key in ("sum", "sum_bidir_reverse"):
            one = interval.get(key) if isinstance(interval, dict) else None
            if not isinstance(one, dict) or one.get("omitted") is True:
                continue
            try:
                start, seconds, octets = (number(one, word) for word in ("start", "seconds", "bytes"))
            except BadJson:
                continue
            if not seconds:
                continue
            verb = "received" if one.get("sender") is False else "sent"
            line = rates.setdefault(verb, [f"from {start:.1f} s on, every {seconds:.1f} s:"])
            line.append(f"{octets * 8e-6 / seconds:.1f}")
    return "".join(f"{verb} (Mbit/s) {_cut(' '.join(words), ' ... ')}\n" for verb, words in rates.items())


def _cut(text: str, gap: str) -> str:
    """Return a text without its middle if it is longer than _LONGEST characters."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}{gap}{text[-half:]}"


def error_text(text: str) -> str:
    """Return the ``error`` that iperf3 reports, or an empty text.

    Accepts any text, since failed runs may print odd JSON.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    error = value.get("error", "") if isinstance(value, dict) else ""
    return error if isinstance(error, str) else repr(error)


class ProcessRole(StrEnum):
    """The role of a process: client or server."""

    CLIENT = "client"
    SERVER = "server"


@dataclass(frozen=True)
class Output:
    """The output of one iperf3 on ``end``; ``other`` is the end that it talked to.

    ``began_s`` is the uptime of ``end`` at which the streams stood, if the server was started to report it. ``at_end``
    is what the end printed after the traffic.
    """

    role: ProcessRole
    end: str
    other: str
    returncode: int
    stdout: str
    stderr: str = ""
    began_s: float | None = None
    at_end: str = ""

    @property
    def error(self) -> str:
        """The error that iperf3 itself reports; of a run without one, what may be its reason on standard error."""
        said = error_text(self.stdout)
        if not said:
            lines = [line for line in own_lines(self.stderr) if not line.startswith("warning: ")]
            # After an error, iperf3 prints how to use it. Other programs begin with their position ("sh: 1: ...").
            of_iperf3 = sorted(
                (line for line in lines if line.startswith("iperf3: ")), key=lambda line: "error" not in line
            )
            said = next(iter(of_iperf3), lines[-1] if lines else "")
        return re.sub(r"^(iperf3: )?(error - )?", "", said)[:300]

    @property
    def failed(self) -> bool:
        return self.returncode != 0 or bool(error_text(self.stdout))

    @property
    def evidence(self) -> str:
        """The output, shortened for a report, and the rates until then."""
        parts = (("stdout", self.stdout), ("stderr", self.stderr))
        shown = ""
        for name, text in parts:
            if text.strip():
                gap = f"\n[... {len(text) - _LONGEST} characters ...]\n"
                shown += f"{name}: {_cut(text, gap)}\n"
        return f"iperf3 {self.role} on {self.end}, exit status {self.returncode}\n{partial(self.stdout)}{shown}"


@dataclass(frozen=True)
class TroubleRule:
    """A sentence for iperf3 messages that match a pattern. ``{end}`` printed the message, about ``{other}``."""

    pattern: str
    message: str
    act: str = ""
    kind: type[LabError] | type[UnsupportedError] = TrafficError


_NO_TIMEOUT = re.compile(r"\btimeout: (command )?not found")
_BUSY_ACT = "end the other test there, or the program that uses that port"
_LOST = "the iperf3 server on {other} ended during the traffic"
_LOST_ACT = "find out why it ended on {other} (console, dmesg, memory), then repeat"
_NO_CONTROL_ACT = "check address, cable, switch port and firewall between {end} and {other}"

_CLIENT_RULES = (
    TroubleRule("server is busy", "the iperf3 server on {other} is busy with another test", _BUSY_ACT),
    TroubleRule(
        "connect.*refused", "no process listens on {other}: the connection from {end} was refused", _NO_CONTROL_ACT
    ),
    TroubleRule(
        "connect.*(timed out|No route|unreachable)",
        "{other} cannot be reached from {end} over the measured link",
        _NO_CONTROL_ACT,
        LinkError,
    ),
    TroubleRule(
        "Cannot assign requested address",
        "{end} does not have the address that its iperf3 must use",
        "find out what removed the address on {end} (NetworkManager, a DHCP client?), then repeat",
        LinkError,
    ),
    TroubleRule("server has terminated", _LOST + ": it was terminated", _LOST_ACT),
    TroubleRule(
        "client has terminated", "the iperf3 client on {end} was interrupted", "repeat, and let it end by itself"
    ),
    TroubleRule("control socket has closed|Connection reset|Broken pipe|stream socket", _LOST, _LOST_ACT),
)
_SERVER_RULES = (
    TroubleRule("Address already in use", "the port of the iperf3 server on {end} is taken", _BUSY_ACT),
    _CLIENT_RULES[3],
    TroubleRule(
        "server has terminated", "the iperf3 server on {end} was terminated", "repeat, and let it end by itself"
    ),
    TroubleRule(
        "client has terminated|control socket|Connection reset|stream socket|unexpectedly closed", _LOST, _LOST_ACT
    ),
)
_COMMON_RULES = (
    TroubleRule(
        "TCP_CONGESTION|congestion control",
        "{end} does not have the requested congestion control",
        kind=UnsupportedError,
    ),
    TroubleRule(
        "unrecognized option|invalid option|parameter error", "the iperf3 of {end} refuses", kind=UnsupportedError
    ),
    TroubleRule(
        "socket buffer size|TCP window",
        "the kernel of {end} refuses the requested window: request a smaller one, or raise net.core.rmem_max and "
        "net.core.wmem_max",
        kind=UnsupportedError,
    ),
    TroubleRule("CPU affinity", "{end} does not have the CPU that affinity= requests", kind=UnsupportedError),
    TroubleRule("MSS", "{end} refuses the requested MSS", kind=UnsupportedError),
)


def explain(output: Output) -> PinetError:
    """Return the error for a process that failed."""
    said = output.error
    own = _CLIENT_RULES if output.role is ProcessRole.CLIENT else _SERVER_RULES
    names = {"end": output.end, "other": output.other}
    status = output.returncode
    process = f"the iperf3 {output.role} on {output.end}"

    def failed(message: str, act: str) -> TrafficError:
        return TrafficError(message, act, output.evidence)

    if status == 127:
        # "sh: 1: timeout: not found", but "timeout: failed to run command 'iperf3'".
        what, package = ("timeout", "coreutils") if _NO_TIMEOUT.search(said) else ("iperf3", "iperf3")
        message = f"{output.end} has no {what} ({said or 'exit status 127'})"
        return ToolError(message, f"on {output.end}: install the package {package}", output.evidence)
    if status in (137, 143):
        signal = {137: "SIGKILL", 143: "SIGTERM"}[status]
        act = f"find out what killed it on {output.end} (dmesg: out of memory?), then repeat"
        return failed(f"{process} was killed ({signal})", act)
    if status == 255 and not error_text(output.stdout):
        return SshError(
            f"the connection to {output.end} was lost while its iperf3 {output.role} ran", f"look at {output.end}"
        )
    for rule in (*_COMMON_RULES, *own) if said else ():
        if re.search(rule.pattern, said, re.IGNORECASE):
            return _make(rule.kind, f"{rule.message.format(**names)} ({said})", rule.act.format(**names), output)
    if status == 124:
        return failed(f"{process} did not end in time", f"look at {output.end}")
    reason = said or (f"exit status {status}" if status else "it printed nothing")
    return failed(f"{process} failed: {reason}", "look at the output of iperf3")


def _make(kind: type[LabError] | type[UnsupportedError], message: str, act: str, output: Output) -> PinetError:
    if issubclass(kind, TrafficError):
        return kind(message, act, output.evidence)
    return kind(message, act) if issubclass(kind, LabError) else kind(message)
