"""What went wrong, from the traces that a failed iperf3 leaves: one sentence, and who must act.

The exit status alone says little: with ``-J``, 3.11 to 3.13 exit 0 on every error, and 3.19 and newer after a signal;
3.9 prints its error only on standard error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.errors import LabError, LinkError, PinetError, SshError, TrafficError, UnsupportedError
from pytest_pinet.traffic.iperf3_json import error_text
from pytest_pinet.traffic.iperf3_partial import partial


class Role(StrEnum):
    """Which of the two processes."""

    CLIENT = "client"
    SERVER = "server"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Output:
    """What one iperf3 left behind on ``end``; ``other`` is the end that it talked to.

    ``began_s`` is the uptime of ``end`` at which its streams stood, where it was asked to tell.
    """

    role: Role
    end: str
    other: str
    returncode: int
    stdout: str
    stderr: str = ""
    began_s: float | None = None

    @property
    def error(self) -> str:
        """What iperf3 itself says is wrong, or nothing."""
        said = error_text(self.stdout) or self.stderr.strip().partition("\n")[0]
        return re.sub(r"^(iperf3: )?(error - )?", "", said)[:300]

    @property
    def failed(self) -> bool:
        return self.returncode != 0 or bool(self.error) or bool(self.stderr.strip())

    @property
    def evidence(self) -> str:
        """What it printed, shortened for a report, and what had been moved until then."""
        parts = (("stdout", self.stdout), ("stderr", self.stderr))
        shown = "".join(f"{name}: {_middle_cut(text)}\n" for name, text in parts if text.strip())
        return f"iperf3 {self.role} on {self.end}, exit status {self.returncode}\n{partial(self.stdout)}{shown}"


@dataclass(frozen=True)
class Rule:
    """When iperf3's words match, this is the sentence. ``{end}`` said it, about ``{other}``."""

    pattern: str
    message: str
    act: str = ""
    kind: type[LabError] | type[UnsupportedError] = TrafficError


_NO_TIMEOUT = re.compile(r"\btimeout: (command )?not found")
_BUSY_ACT = "end the other test there, or whatever else uses that port"
_LOST = "the iperf3 server on {other} went away in the middle of the traffic"
_LOST_ACT = "look why it ended on {other}: its console, dmesg, memory; then repeat"
_NO_CONTROL_ACT = "check address, cable, switch port and firewall between {end} and {other}"

_CLIENT_RULES = (
    Rule("server is busy", "the iperf3 server on {other} is busy with another test", _BUSY_ACT),
    Rule("connect.*refused", "nobody listens on {other}: the connection from {end} was refused", _NO_CONTROL_ACT),
    Rule(
        "connect.*(timed out|No route|unreachable)",
        "{other} cannot be reached from {end} over the measured link",
        _NO_CONTROL_ACT,
        LinkError,
    ),
    Rule(
        "Cannot assign requested address",
        "{end} does not have the address that its iperf3 was told to use",
        "set the address of the measured interface on {end}",
        LinkError,
    ),
    # 3.9 does not tell refused from unreachable, nor busy from ended.
    Rule(
        "send control message: Bad file descriptor",
        "no connection from {end} to the iperf3 server on {other}: refused or unreachable",
        _NO_CONTROL_ACT,
    ),
    Rule(
        "send control message: Connection reset",
        "the iperf3 server on {other} closed the connection at once: busy with another test, or ended",
        _BUSY_ACT,
    ),
    Rule("server has terminated", _LOST + ": it was terminated", _LOST_ACT),
    Rule("client has terminated", "the iperf3 client on {end} was interrupted", "repeat, and let it end by itself"),
    Rule("control socket has closed|Connection reset|Broken pipe|stream socket", _LOST, _LOST_ACT),
)
_SERVER_RULES = (
    Rule("Address already in use", "the port of the iperf3 server on {end} is taken", _BUSY_ACT),
    _CLIENT_RULES[3],
    Rule("server has terminated", "the iperf3 server on {end} was terminated", "repeat, and let it end by itself"),
    Rule("client has terminated|control socket|Connection reset|stream socket|unexpectedly closed", _LOST, _LOST_ACT),
)
_COMMON_RULES = (
    Rule(
        "TCP_CONGESTION|congestion control",
        "{end} does not have the congestion control that was asked for",
        kind=UnsupportedError,
    ),
    Rule("unrecognized option|invalid option|parameter error", "the iperf3 of {end} refuses", kind=UnsupportedError),
    Rule(
        "socket buffer size|TCP window",
        "{end} refuses the window that was asked for (net.core.rmem_max and wmem_max bound it)",
        kind=UnsupportedError,
    ),
    Rule("CPU affinity", "{end} has no such CPU as affinity= asks for", kind=UnsupportedError),
    Rule("MSS", "{end} refuses the MSS that was asked for", kind=UnsupportedError),
)


def explain(output: Output) -> PinetError:
    """The error for a process that failed."""
    said = output.error
    own = _CLIENT_RULES if output.role is Role.CLIENT else _SERVER_RULES
    names = {"end": output.end, "other": output.other}
    status = output.returncode
    if status == 127:
        # "sh: 1: timeout: not found", but "timeout: failed to run command 'iperf3'".
        what, package = ("timeout", "coreutils") if _NO_TIMEOUT.search(said) else ("iperf3", "iperf3")
        return TrafficError(
            f"{output.end} has no {what} ({said or 'exit status 127'})",
            f"on {output.end}: install the package {package}",
            output.evidence,
        )
    if status in (137, 143):
        signal = {137: "SIGKILL", 143: "SIGTERM"}[status]
        return TrafficError(
            f"the iperf3 {output.role} on {output.end} was killed ({signal})",
            f"look who killed it on {output.end} (dmesg: out of memory?), then repeat",
            output.evidence,
        )
    for rule in (*_COMMON_RULES, *own) if said else ():
        if re.search(rule.pattern, said, re.IGNORECASE):
            return _make(rule.kind, f"{rule.message.format(**names)} ({said})", rule.act.format(**names), output)
    if status == 124:
        return TrafficError(
            f"the iperf3 {output.role} on {output.end} did not end in time", f"look at {output.end}", output.evidence
        )
    if status == 255:
        return SshError(
            f"the connection to {output.end} was lost while its iperf3 {output.role} ran", f"look at {output.end}"
        )
    reason = said or (f"exit status {status}" if status else "it printed nothing")
    return TrafficError(
        f"the iperf3 {output.role} on {output.end} failed: {reason}", "see what it printed", output.evidence
    )


def _make(kind: type[LabError] | type[UnsupportedError], message: str, act: str, output: Output) -> PinetError:
    if issubclass(kind, TrafficError):
        return kind(message, act, output.evidence)
    return kind(message, act) if issubclass(kind, LabError) else kind(message)


def _middle_cut(text: str, most: int = 4000) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - most} characters ...]\n{text[-half:]}"
