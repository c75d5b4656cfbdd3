"""Reads the state of the connections that carry the traffic from ``ss``, during the traffic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.measurement import Sockets
from pytest_pinet.model.quantities import Bitrate

# Time limit of one reading on a busy machine. The traffic tool reports a machine that does not answer.
ANSWER_S = 1.0
# The control connection of a traffic tool has sent only some hundred bytes by this time.
LEAST_SENT = 10_000
_WORD = re.compile(r"(?<!\S)([a-z_]+):(\S+)")
# ``skmem:(r0,rb131072,t0,tb87040,...)``: rb and tb are the effective SO_RCVBUF and SO_SNDBUF.
_BUFFER = {"sndbuf": re.compile(r"\btb([0-9]{1,18})\b"), "rcvbuf": re.compile(r"\brb([0-9]{1,18})\b")}
# No counter of a kernel has more digits.
_NUMBER = re.compile(r"[0-9]{1,20}(?![0-9])(?:\.[0-9]+)?")


@dataclass(frozen=True)
class _Connection:
    words: dict[str, str]

    def number(self, key: str) -> float | None:
        """Return the first number of a value such as ``2.036/0.211``; None if there is none."""
        found = _NUMBER.match(self.words.get(key, ""))
        return None if found is None else float(found.group())

    @property
    def retransmits(self) -> int:
        """The total of ``retrans:0/12``, after the present count; it is printed only if there were any."""
        found = _NUMBER.fullmatch(self.words.get("retrans", "").partition("/")[2])
        return 0 if found is None else int(float(found.group()))

    @property
    def sent(self) -> float:
        # Kernels before 4.19 do not report bytes_sent.
        return self.number("bytes_sent") or self.number("bytes_acked") or 0.0

    @property
    def received(self) -> float:
        return self.number("bytes_received") or 0.0

    @property
    def fills_half_the_window(self) -> bool:
        """Whether a segment has at least half of the receiver's window. Linux sends no larger ones.

        See tcp_bound_to_half_wnd of the kernel. ``ss`` omits a window of 0, and an old ``ss`` any window: the
        connection then must have waited for the window most of the time.
        """
        window = self.number("snd_wnd")
        if window is None:
            return (_limited("rwnd_limited", [self]) or 0.0) > 0.5
        return 2 * (self.number("mss") or 0.0) >= window - 1

    def buffer(self, name: str) -> int | None:
        found = _BUFFER[name].search(self.words.get("skmem", ""))
        return None if found is None else int(found[1])


def ask_sockets(shell: Shell, port: int) -> str:
    """Return the output of ``ss`` for all connections of this port (local or remote).

    Empty if there is no ``ss`` of iproute2, or no answer within ANSWER_S: this is evidence only.
    """
    ask = f"PATH=$PATH:/usr/sbin:/sbin ss -tinm '( sport = :{port} or dport = :{port} )' 2>/dev/null"
    try:
        return shell.run(ask, timeout_s=ANSWER_S).stdout
    except LabError:
        return ""


def parse_sockets(text: str, streams: int, receiving: bool = False) -> Sockets | None:
    """Parse the output of ``ss -tinm``: for each connection a line of addresses, then a line of details.

    Of these, the ``streams`` connections that sent the most count; with ``receiving``, the ones that received the most.
    """

    def moved(one: _Connection) -> float:
        return one.received if receiving else one.sent

    details = [line for line in text.splitlines() if line[:1].isspace()]
    # ``ss -O`` prints addresses and details on one line.
    details += [line for line in text.splitlines() if line[:1].strip() and " mss:" in line]
    found = [_Connection(dict(_WORD.findall(line))) for line in details]
    found = [one for one in found if one.number("mss") and moved(one) >= LEAST_SENT]
    data = sorted(found, key=moved, reverse=True)[:streams]
    if not data:
        return None
    smallest = min(data, key=lambda one: one.number("mss") or 0)
    return Sockets(
        connections=len(data),
        mss=int(smallest.number("mss") or 0),
        rtt_s=_mean([one.number("rtt") for one in data]),
        rtt_min_s=min((_ms(value) for one in data if (value := one.number("minrtt")) is not None), default=None),
        cwnd_bytes=_windows(data),
        retransmits=sum(one.retransmits for one in data),
        receiver_limited=_limited("rwnd_limited", data),
        sender_limited=_limited("sndbuf_limited", data),
        sndbuf_bytes=min((size for one in data if (size := one.buffer("sndbuf")) is not None), default=None),
        rcvbuf_bytes=min((size for one in data if (size := one.buffer("rcvbuf")) is not None), default=None),
        is_mss_of_window=smallest.fills_half_the_window,
        while_busy=_while_busy(data),
    )


def _limited(key: str, data: list[_Connection]) -> float | None:
    """Return the limited share of the time with data to send; None without that time.

    ``ss`` prints this time as ``busy`` since kernel 4.9. It omits values of 0.
    """
    busy = sum(one.number("busy") or 0.0 for one in data)
    # "rwnd_limited:384ms(38.7%)"
    return sum(one.number(key) or 0.0 for one in data) / busy if busy > 0 else None


def _while_busy(data: list[_Connection]) -> Bitrate | None:
    """Return the acknowledged rate of the time with data to send; None if one connection does not report it."""
    pairs = [(one.number("bytes_acked"), one.number("busy")) for one in data]
    rates = [acknowledged * 8 / _ms(busy) for acknowledged, busy in pairs if acknowledged is not None and busy]
    return Bitrate(sum(rates)) if len(rates) == len(data) else None


def _ms(value: float) -> float:
    return value / 1e3


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _ms(sum(known) / len(known)) if known else None


def _windows(data: list[_Connection]) -> int | None:
    pairs = [(one.number("cwnd"), one.number("mss")) for one in data]
    known = [int(cwnd * mss) for cwnd, mss in pairs if cwnd is not None and mss is not None]
    return sum(known) if len(known) == len(data) else None


# The octets of the connections that a node needs, and that share an interface with the traffic: ssh, and a root file
# system over NFS, also below an overlay.

# Shell scripts. ``root`` is put before the paths. The first sets ``server`` to the address of the server: that of / as
# the kernel mounted it, else of nfsroot=; to ``unknown`` without an address, and to nothing without an NFS root.
_SERVER = (
    r"server=$(sed -n 's/^[^ ]* \/ nfs4* .*,addr=\([^, ]*\).*/\1/p' $root/proc/self/mounts);"
    r' [ -n "$server" ] || server=$(tr " " "\n" <$root/proc/cmdline | sed -n "s/^nfsroot=\([0-9.]*\):.*/\1/p;'
    r' s/^nfsroot=\/.*/unknown/p; s/^root=\/dev\/nfs$/unknown/p" | sort | head -n 1);'
)
# Sets ``nics`` to the devices of the route to the server; to all if the server is unknown.
NFS_ROOT = (
    f"{_SERVER} nics=;"
    r' [ -z "$server" ] || { nics=$(ip -o route get $server 2>/dev/null | sed -n "s/.* dev \([^ ]*\).*/\1/p");'
    " nics=${nics:-$(cd $root/sys/class/net && ls -d */ | tr -d /)}; }"
)
# Sets ``nfs`` to the filter of ss for the connections to the server; to nothing without an NFS root. Port 2049 is in no
# list of options.
NFS_CONNECTIONS = (
    f"{_SERVER} nfs=;"
    r' [ -z "$server" ] || { nfs=$(sed -n "s/^[^ ]* \/ nfs4* .*,port=\([0-9]*\).*/\1/p" $root/proc/self/mounts);'
    ' nfs="dport = :${nfs:-2049}"; case $server in unknown) ;; *:*) nfs="$nfs and dst [$server]" ;;'
    ' *) nfs="$nfs and dst $server" ;; esac; }'
)


# Time limit of one reading on a busy node. The traffic tool reports a node that does not answer.
OCTETS_ANSWER_S = 3.0
# Octets of each segment besides its payload: Ethernet with FCS 18, IPv4 20, TCP with timestamps 32.
HEADERS = 70
# All connections to the port of our own connection, and to the server of the root file system.
COMMAND = (
    f"root=; PATH=$PATH:/usr/sbin:/sbin; {NFS_CONNECTIONS}; set -- $SSH_CONNECTION;"
    " read -r up rest </proc/uptime; echo uptime $up;"
    ' ss -tinH state established "( sport = :${4:-22} ${nfs:+or ( $nfs )} )" 2>/dev/null'
)
_UPTIME = re.compile(r"uptime ([0-9]{1,12}\.[0-9]+)")


@dataclass(frozen=True)
class ManagementReading:
    """The octets of each connection of a node so far, at ``uptime_s`` of the node's clock."""

    uptime_s: float
    octets: Mapping[str, int]

    def octets_since(self, old: ManagementReading) -> int:
        """Return the octets of all connections that are open now since an earlier reading."""
        return sum(max(0, count - old.octets.get(name, 0)) for name, count in self.octets.items())


def read_octets(shell: Shell) -> str:
    """Return the output of ``ss``; empty if the node does not answer: this is evidence only."""
    try:
        return shell.run(COMMAND, timeout_s=OCTETS_ANSWER_S).stdout
    except LabError:
        return ""


def parse_octets(text: str) -> ManagementReading | None:
    """Parse the output of a node; None if it has no ``ss`` of iproute2, or a kernel that does not count segments."""
    uptime_s: float | None = None
    name = ""
    octets: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if found := _UPTIME.fullmatch(line):
            uptime_s = float(found[1])
        elif words and not line[:1].isspace():
            name = " ".join(words[2:4])
        elif "segs_out:" in line or "segs_in:" in line:
            one = _Connection(dict(_WORD.findall(line)))
            segments = (one.number("segs_out") or 0) + (one.number("segs_in") or 0)
            octets[name] = round(one.sent + one.received + segments * HEADERS)
    return None if uptime_s is None or not octets else ManagementReading(uptime_s, octets)
