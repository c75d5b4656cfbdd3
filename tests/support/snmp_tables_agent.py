"""A ``pass_persist`` command of snmpd: the tables of a switch whose ports are p1, p2 and so on.

The bridge port of pN is 10 + N. Each table is one command; all have the same modes. Only the standard library is used,
because the command also runs inside a virtual switch. Files are beside the configuration of snmpd. Each received set
is a line of ``sets``: the time, the object, the type and the value. ``poe`` has the PoE state of each bridge port, and
is read at the start, if it exists.

``honest`` executes all changes, in its tables only. ``nothing`` confirms changes and ignores them. ``half`` moves a
port but leaves it an untagged member of its old VLAN (Netgear GS110TPv3, firmware 7.0.4.8). ``late`` requires that a
port is a member of a VLAN before the VLAN becomes its PVID. ``stale`` shows octet counters that are up to 4 s old.
``learned`` is ``honest``, and has the addresses that the bridges learned.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

BRIDGE = (1, 3, 6, 1, 2, 1, 17)
BASE = (*BRIDGE, 1, 4, 1, 2)
FDB_PORT = (*BRIDGE, 7, 1, 2, 2, 1, 2)
FDB_STATUS = (*BRIDGE, 7, 1, 2, 2, 1, 3)
VLAN = (*BRIDGE, 7, 1, 4, 3, 1)
PVID = (*BRIDGE, 7, 1, 4, 5, 1, 1)
IF_X = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
IN_OCTETS, OUT_OCTETS, HIGH_SPEED = (*IF_X, 6), (*IF_X, 10), (*IF_X, 15)
# pethPsePortAdminEnable of the group 1
POE = (1, 3, 6, 1, 2, 1, 105, 1, 1, 1, 3, 1)
NAME, EGRESS, UNTAGGED, STATUS = 1, 2, 4, 5
FIRST = 11
STALE_S = 4.0
Values = dict[tuple[int, ...], tuple[str, str]]


class Tables:
    def __init__(self, mode: str, folder: Path) -> None:
        self.mode = mode
        self.folder = folder
        found = {int(match[1]): i for i, name in socket.if_nameindex() if (match := re.fullmatch(r"p(\d+)", name))}
        # The number of each interface, by bridge port.
        self.ports = {FIRST - 1 + port: index for port, index in sorted(found.items())}
        every = b""
        for number in self.ports:
            every = _with(every, number)
        self.pvid = dict.fromkeys(self.ports, 1)
        self.poe = dict.fromkeys(self.ports, 1)
        if (folder / "poe").exists():
            self.poe |= {int(number): value for number, value in json.loads((folder / "poe").read_text()).items()}
        self.vlans: dict[int, dict[int, bytes]] = {1: {NAME: b"default", EGRESS: every, UNTAGGED: every}}
        self._read: dict[str, tuple[float, Values]] = {}

    def values(self, table: tuple[int, ...], oid: tuple[int, ...]) -> Values:
        """Return the objects of a table that an answer about ``oid``, or about the next object, can have."""
        if table[: len(IF_X)] == IF_X:
            # Nothing but a mode makes values old: a walk is a request for each of its values.
            return self._kept("counters", STALE_S if self.mode == "stale" else 0.0)
        found: Values = {}
        for number, index in self.ports.items():
            found[*BASE, number] = ("integer", str(index))
            found[*PVID, number] = ("gauge", str(self.pvid[number]))
            found[*POE, number] = ("integer", str(self.poe[number]))
        for vid, row in self.vlans.items():
            for column, value in row.items():
                found[*VLAN, column, vid] = _octets(value)
            found[*VLAN, STATUS, vid] = ("integer", "1")
        if self.mode != "learned" or table != BRIDGE or oid[: len(FDB_STATUS)] > FDB_STATUS:
            return found
        return found | self._kept("learned", 3.0)

    def _kept(self, what: str, seconds: float) -> Values:
        """Read again what is older than this."""
        when, found = self._read.get(what, (0.0, {}))
        if not when or time.monotonic() - when >= seconds:
            found = self._counters() if what == "counters" else self._learned()
            self._read[what] = (time.monotonic(), found)
        return found

    def _counters(self) -> Values:
        found: Values = {}
        for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
            name, _, rest = line.partition(":")
            index, counts = socket.if_nametoindex(name.strip()), rest.split()
            found[*IN_OCTETS, index] = ("counter64", counts[0])
            found[*OUT_OCTETS, index] = ("counter64", counts[8])
            speed = Path(f"/sys/class/net/{name.strip()}/speed")
            found[*HIGH_SPEED, index] = ("gauge", speed.read_text().strip() if name.strip().startswith("p") else "0")
        return found

    def _learned(self) -> Values:
        found: Values = {}
        command = ["bridge", "-j", "fdb", "show"]
        numbers = {socket.if_indextoname(index): number for number, index in self.ports.items()}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=10, check=False)
        for entry in json.loads(done.stdout or "[]"):
            if entry.get("state", "") != "permanent" and entry["ifname"] in numbers:
                number = numbers[entry["ifname"]]
                row = (self.pvid[number], *bytes.fromhex(entry["mac"].replace(":", "")))
                found[(*FDB_PORT, *row)] = ("integer", str(number))
                found[(*FDB_STATUS, *row)] = ("integer", "3")
        return found

    def get(self, oid: tuple[int, ...], table: tuple[int, ...]) -> tuple[str, str] | None:
        # snmpd passes a set on only if a get of the same name answers. A VLAN that does not exist yet is "not ready".
        if oid[:-2] == VLAN and oid[-1] not in self.vlans:
            return ("integer", "3") if oid[-2] == STATUS else _octets(b"")
        return self.values(table, oid).get(oid)

    def set(self, oid: tuple[int, ...], kind: str, value: str) -> str:
        number = oid[:-1] in (PVID, POE) or oid[:-1] == (*VLAN, STATUS)
        if number != (kind in ("integer", "gauge")):
            return "wrong-type"
        if self.mode == "nothing":
            return "DONE"
        if oid[:-1] == POE:
            if value not in ("1", "2"):
                return "wrong-value"
            self.poe[oid[-1]] = int(value)
            (self.folder / "poe.new").write_text(json.dumps(self.poe))
            (self.folder / "poe.new").rename(self.folder / "poe")
            return "DONE"
        if oid[:-1] == PVID:
            vid = int(value)
            if vid not in self.vlans or (self.mode == "late" and not _has(self.vlans[vid][EGRESS], oid[-1])):
                return "inconsistent-value"
            self.pvid[oid[-1]] = vid
            return "DONE"
        column, vid = oid[-2], oid[-1]
        if column == STATUS:
            if value == "4" and vid not in self.vlans:
                self.vlans[vid] = {NAME: b"", EGRESS: b"", UNTAGGED: b""}
            elif value == "6":
                self.vlans.pop(vid, None)
            return "DONE"
        octets = value.encode() if column == NAME else bytes.fromhex(value)
        if self.mode == "half" and column == UNTAGGED:
            old = self.vlans[vid][column]
            size = max(len(old), len(octets))
            octets = bytes(a | b for a, b in zip(octets.ljust(size, b"\0"), old.ljust(size, b"\0"), strict=True))
        self.vlans[vid][column] = octets
        return "DONE"


def _has(mask: bytes, port: int) -> bool:
    at, bit = divmod(port - 1, 8)
    return bool(mask[at : at + 1] and mask[at] & (0x80 >> bit))


def _with(mask: bytes, port: int) -> bytes:
    at, bit = divmod(port - 1, 8)
    found = bytearray(mask.ljust(at + 1, b"\0"))
    found[at] |= 0x80 >> bit
    return bytes(found)


def _octets(value: bytes) -> tuple[str, str]:
    return "octet", " ".join(f"{byte:02X}" for byte in value)


def _line() -> str:
    # snmpd 5.9.3 sends an empty line after each set.
    while (text := sys.stdin.readline()) == "\n":
        pass
    return text.strip()


def _answer(oid: tuple[int, ...], value: tuple[str, str] | None) -> list[str]:
    return ["NONE"] if value is None else ["." + ".".join(map(str, oid)), *value]


def _oid(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.strip(".").split("."))


def main(table: tuple[int, ...], mode: str) -> None:
    """Serve the objects under ``table``."""
    folder = Path(os.environ["SNMPCONFPATH"])
    tables = Tables(mode, folder)
    while command := _line():
        if command == "PING":
            answer = ["PONG"]
        elif command == "set":
            oid, (kind, _, value) = _oid(_line()), _line().partition(" ")
            with (folder / "sets").open("a") as file:
                file.write(f"{time.time():.3f} {'.'.join(map(str, oid))} {kind} {value}\n")
            answer = [tables.set(oid, kind, value.strip(' "'))]
        else:
            oid = _oid(_line())
            if command == "getnext":
                values = tables.values(table, oid)
                oid = min((one for one in values if one > oid and one[: len(table)] == table), default=())
                answer = _answer(oid, values.get(oid))
            else:
                answer = _answer(oid, tables.get(oid, table))
        sys.stdout.write("".join(f"{line}\n" for line in answer))
        sys.stdout.flush()


if __name__ == "__main__":
    main(_oid(sys.argv[1]), sys.argv[2])
