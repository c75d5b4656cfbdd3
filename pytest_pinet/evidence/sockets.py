"""What ``ss`` says of the connections that carry the traffic, while they do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.model.sockets import Sockets
from pytest_pinet.shell import Shell

# One look at a machine that is busy with traffic; one that does not answer is told by the traffic tool.
ANSWER_S = 1.0
# A tool's control connection has sent some hundred bytes by then.
LEAST_SENT = 10_000
_WORD = re.compile(r"(?<!\S)([a-z_]+):(\S+)")
# ``skmem:(r0,rb131072,t0,tb87040,...)``: rb and tb are what SO_RCVBUF and SO_SNDBUF ended as.
_BUFFER = {"sndbuf": re.compile(r"\btb(\d+)"), "rcvbuf": re.compile(r"\brb(\d+)")}


@dataclass(frozen=True)
class _Connection:
    words: dict[str, str]

    def number(self, key: str) -> float | None:
        """The first number of a value such as ``2.036/0.211``; None where there is none."""
        found = re.match(r"\d+(?:\.\d+)?", self.words.get(key, ""))
        return None if found is None else float(found.group())

    @property
    def sent(self) -> float:
        # Kernels before 4.19 do not tell bytes_sent.
        return self.number("bytes_sent") or self.number("bytes_acked") or 0.0

    @property
    def received(self) -> float:
        return self.number("bytes_received") or 0.0

    def buffer(self, name: str) -> int | None:
        found = _BUFFER[name].search(self.words.get("skmem", ""))
        return None if found is None else int(found[1])


def read_sockets(shell: Shell, port: int, streams: int) -> Sockets | None:
    """Ask the sending end for the ``streams`` connections of this port (its own, or the far end's) that sent the most.

    None when there is no ``ss`` of iproute2, no such connection, or no answer within ANSWER_S: it is evidence only.
    """
    return parse_sockets(ask_sockets(shell, port), streams)


def ask_sockets(shell: Shell, port: int) -> str:
    """What ``ss`` prints of all connections of this port; nothing where it does not answer."""
    ask = f"PATH=$PATH:/usr/sbin:/sbin ss -tinm '( sport = :{port} or dport = :{port} )' 2>/dev/null"
    try:
        return shell.run(ask, timeout_s=ANSWER_S).stdout
    except LabError:
        return ""


def parse_sockets(text: str, streams: int, receiving: bool = False) -> Sockets | None:
    """Read what ``ss -tinm`` prints: a line of addresses for each connection, and behind it a line of details.

    Of the ``streams`` connections that sent the most, or with ``receiving`` of those that received the most.
    """

    def moved(one: _Connection) -> float:
        return one.received if receiving else one.sent

    details = [line for line in text.splitlines() if line[:1].isspace()]
    # Where the details follow the addresses in one line (``ss -O``), too.
    details += [line for line in text.splitlines() if line[:1].strip() and " mss:" in line]
    found = [_Connection(dict(_WORD.findall(line))) for line in details]
    found = [one for one in found if one.number("mss") and moved(one) >= LEAST_SENT]
    data = sorted(found, key=moved, reverse=True)[:streams]
    if not data:
        return None
    return Sockets(
        connections=len(data),
        mss=min(int(one.number("mss") or 0) for one in data),
        rtt_s=_mean([one.number("rtt") for one in data]),
        rtt_min_s=min((_ms(value) for one in data if (value := one.number("minrtt")) is not None), default=None),
        cwnd_bytes=_windows(data),
        window_scales=_scales(data[0].words.get("wscale", "")),
        # ``retrans:0/12`` is now and in all; it stands there only when there were any.
        retransmits=sum(int(one.words["retrans"].partition("/")[2] or 0) for one in data if "retrans" in one.words),
        receiver_limited=_limited("rwnd_limited", data),
        sender_limited=_limited("sndbuf_limited", data),
        sndbuf_bytes=min((size for one in data if (size := one.buffer("sndbuf")) is not None), default=None),
        rcvbuf_bytes=min((size for one in data if (size := one.buffer("rcvbuf")) is not None), default=None),
    )


def _limited(key: str, data: list[_Connection]) -> float | None:
    """Of the time with data to send (``busy``, since kernel 4.9), which is left out together with what is 0."""
    busy = sum(one.number("busy") or 0.0 for one in data)
    # "rwnd_limited:384ms(38.7%)"
    return sum(one.number(key) or 0.0 for one in data) / busy if busy > 0 else None


def _ms(value: float) -> float:
    return value / 1e3


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _ms(sum(known) / len(known)) if known else None


def _windows(data: list[_Connection]) -> int | None:
    pairs = [(one.number("cwnd"), one.number("mss")) for one in data]
    known = [int(cwnd * mss) for cwnd, mss in pairs if cwnd is not None and mss is not None]
    return sum(known) if len(known) == len(data) else None


def _scales(text: str) -> tuple[int, int] | None:
    sender, comma, receiver = text.partition(",")
    # ``ss`` prints the peer's shift first: what the sender applies to the window that it is given.
    return (int(sender), int(receiver)) if comma and sender.isdigit() and receiver.isdigit() else None
