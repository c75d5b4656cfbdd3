"""Counts the octets of the connections that a node needs, and that share an interface with the traffic.

These are the connections of ssh, and of a root file system over NFS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import Shell

# Which network devices a root file system over NFS needs, also below an overlay.


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
ANSWER_S = 3.0
# Octets of each segment besides its payload: Ethernet with FCS 18, IPv4 20, TCP with timestamps 32.
HEADERS = 70
# All connections to the port of our own connection, and to the server of the root file system.
COMMAND = (
    f"root=; PATH=$PATH:/usr/sbin:/sbin; {NFS_CONNECTIONS}; set -- $SSH_CONNECTION;"
    " read -r up rest </proc/uptime; echo uptime $up;"
    ' ss -tinH state established "( sport = :${4:-22} ${nfs:+or ( $nfs )} )" 2>/dev/null'
)
_COUNT = re.compile(r"(?<!\S)(bytes_sent|bytes_acked|bytes_received|segs_out|segs_in):([0-9]{1,20})")
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
        return shell.run(COMMAND, timeout_s=ANSWER_S).stdout
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
            counts = {key: int(value) for key, value in _COUNT.findall(line)}
            # Kernels before 4.19 do not report bytes_sent.
            sent = counts.get("bytes_sent", counts.get("bytes_acked", 0))
            segments = counts.get("segs_out", 0) + counts.get("segs_in", 0)
            octets[name] = sent + counts.get("bytes_received", 0) + segments * HEADERS
    return None if uptime_s is None or not octets else ManagementReading(uptime_s, octets)
