"""A ``pass_persist`` command of snmpd: the tables of a switch with four ports, which are bridge ports 11 to 14.

The tables of VLANs and of PoE, which are two commands with the same modes. Each received set is a line of the file
``sets`` beside the configuration: the time, the object, the type and the value.

``honest`` executes all changes. ``nothing`` confirms changes and ignores them. ``half`` moves a port but leaves it an
untagged member of its old VLAN (Netgear GS110TPv3, firmware 7.0.4.8). ``late`` requires that a port is a member of a
VLAN before the VLAN becomes its PVID.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

BRIDGE = (1, 3, 6, 1, 2, 1, 17)
BASE = (*BRIDGE, 1, 4, 1, 2)
VLAN = (*BRIDGE, 7, 1, 4, 3, 1)
PVID = (*BRIDGE, 7, 1, 4, 5, 1, 1)
# pethPsePortAdminEnable of the group 1
POE = (1, 3, 6, 1, 2, 1, 105, 1, 1, 1, 3, 1)
NAME, EGRESS, UNTAGGED, STATUS = 1, 2, 4, 5
ALL = bytes((0x00, 0x3C))


class Tables:
    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.poe = dict.fromkeys((11, 12, 13, 14), 1)
        self.pvid = dict.fromkeys((11, 12, 13, 14), 1)
        self.vlans: dict[int, dict[int, bytes]] = {1: {NAME: b"default", EGRESS: ALL, UNTAGGED: ALL}}

    def values(self) -> dict[tuple[int, ...], tuple[str, str]]:
        found: dict[tuple[int, ...], tuple[str, str]] = {}
        for port, number in enumerate((11, 12, 13, 14), start=1):
            index = Path(f"/sys/class/net/p{port}/ifindex").read_text().strip()
            found[*BASE, number] = ("integer", index)
            found[*PVID, number] = ("gauge", str(self.pvid[number]))
            found[*POE, number] = ("integer", str(self.poe[number]))
        for vid, row in self.vlans.items():
            for column, value in row.items():
                found[*VLAN, column, vid] = _octets(value)
            found[*VLAN, STATUS, vid] = ("integer", "1")
        return found

    def get(self, oid: tuple[int, ...]) -> tuple[str, str] | None:
        # snmpd passes a set on only if a get of the same name answers. A VLAN that does not exist yet is "not ready".
        if oid[:-2] == VLAN and oid[-1] not in self.vlans:
            return ("integer", "3") if oid[-2] == STATUS else _octets(b"")
        return self.values().get(oid)

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
            octets = bytes(a | b for a, b in zip(octets.ljust(2, b"\0"), old.ljust(2, b"\0"), strict=True))
        self.vlans[vid][column] = octets
        return "DONE"


def _has(mask: bytes, port: int) -> bool:
    return bool(mask[1:2] and mask[1] & (0x80 >> (port - 9)))


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
    tables = Tables(mode)
    sets = Path(os.environ["SNMPCONFPATH"]) / "sets"
    while command := _line():
        if command == "PING":
            answer = ["PONG"]
        elif command == "set":
            oid, (kind, _, value) = _oid(_line()), _line().partition(" ")
            with sets.open("a") as file:
                file.write(f"{time.time():.3f} {'.'.join(map(str, oid))} {kind} {value}\n")
            answer = [tables.set(oid, kind, value.strip(' "'))]
        else:
            oid = _oid(_line())
            if command == "getnext":
                values = tables.values()
                oid = min((one for one in values if one > oid and one[: len(table)] == table), default=())
                answer = _answer(oid, values.get(oid))
            else:
                answer = _answer(oid, tables.get(oid))
        sys.stdout.write("".join(f"{line}\n" for line in answer))
        sys.stdout.flush()


if __name__ == "__main__":
    main(_oid(sys.argv[1]), sys.argv[2])
