"""The MIB objects of a virtual switch: ports, VLANs, forwarding, PoE. net-snmp lacks them, or caches them too long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from pytest_pinet.virtual.firmware import DEFAULT_VLAN, LARGEST_VLAN, Draft, KernelState, SwitchFirmware, Vlan
from pytest_pinet.virtual.netlink import LinkInfo
from pytest_pinet.virtual.port_counters import Counted

Oid = tuple[int, ...]
MIB_2: Oid = (1, 3, 6, 1, 2, 1)
IF_ENTRY: Oid = (*MIB_2, 2, 2, 1)
IF_X_ENTRY: Oid = (*MIB_2, 31, 1, 1, 1)
DOT3_STATS: Oid = (*MIB_2, 10, 7, 2, 1)
BRIDGE_MIB: Oid = (*MIB_2, 17)
PSE_PORT: Oid = (*MIB_2, 105, 1, 1, 1)
IF_ADMIN_STATUS: Oid = (*IF_ENTRY, 7)
BASE_PORT_IF_INDEX: Oid = (*BRIDGE_MIB, 1, 4, 1, 2)
TP_FDB: Oid = (*BRIDGE_MIB, 4, 3, 1)
Q_TP_FDB: Oid = (*BRIDGE_MIB, 7, 1, 2, 2, 1)
VLAN_STATIC: Oid = (*BRIDGE_MIB, 7, 1, 4, 3, 1)
PVID: Oid = (*BRIDGE_MIB, 7, 1, 4, 5, 1, 1)
PSE_ADMIN_ENABLE: Oid = (*PSE_PORT, 3)
# The only PoE group that labgrid's poe_mib supports.
POE_GROUP = 1
_UP, _DOWN = 1, 2
_TRUE, _FALSE = 1, 2
_FULL_DUPLEX = 3
_LEARNED = 3
_DISABLED, _SEARCHING, _DELIVERING = 1, 2, 3
_LONGEST_NAME = 32


class SnmpType(IntEnum):
    """SNMP types, and the codes for missing values."""

    INTEGER = 2
    OCTETS = 4
    OBJECT_ID = 6
    IP_ADDRESS = 64
    COUNTER32 = 65
    GAUGE32 = 66
    TIME_TICKS = 67
    OPAQUE = 68
    COUNTER64 = 70
    NO_SUCH_INSTANCE = 129
    END_OF_MIB = 130


class SnmpError(IntEnum):
    """Reasons for refusing a SET (RFC 3416)."""

    NONE = 0
    WRONG_TYPE = 7
    WRONG_VALUE = 10
    INCONSISTENT_VALUE = 12
    COMMIT_FAILED = 14
    NOT_WRITABLE = 17
    INCONSISTENT_NAME = 18


@dataclass(frozen=True)
class Value:
    """A value of a `SnmpType`, or of a type that no object of ours accepts. Then ``data`` is None."""

    kind: int
    data: int | bytes | None = None


integer = partial(Value, SnmpType.INTEGER)
counter32 = partial(Value, SnmpType.COUNTER32)
counter64 = partial(Value, SnmpType.COUNTER64)
gauge = partial(Value, SnmpType.GAUGE32)
octets = partial(Value, SnmpType.OCTETS)


class RowStatus(IntEnum):
    """The present or requested state of a table row (RFC 2579)."""

    ACTIVE = 1
    CREATE_AND_GO = 4
    CREATE_AND_WAIT = 5
    DESTROY = 6


@dataclass(frozen=True)
class _DeviceRow:
    """A row of the interface tables. ``speed_mbps`` is the speed that the PHY negotiated."""

    link: LinkInfo
    counted: Counted
    speed_mbps: int


_Column = Callable[[_DeviceRow], Value]
_COLUMNS: dict[Oid, _Column] = {
    IF_ADMIN_STATUS: lambda row: integer(_UP if row.link.admin_up else _DOWN),
    (*IF_ENTRY, 8): lambda row: integer(_UP if row.link.admin_up and row.link.carrier else _DOWN),
    (*IF_ENTRY, 13): lambda _: counter32(0),
    (*IF_ENTRY, 14): lambda row: counter32(row.counted.in_errors),
    (*IF_ENTRY, 19): lambda row: counter32(row.counted.out_discards),
    (*IF_ENTRY, 20): lambda _: counter32(0),
    (*IF_X_ENTRY, 6): lambda row: counter64(row.counted.in_octets),
    (*IF_X_ENTRY, 10): lambda row: counter64(row.counted.out_octets),
    (*IF_X_ENTRY, 15): lambda row: gauge(row.speed_mbps),
    (*DOT3_STATS, 3): lambda row: counter32(row.counted.in_errors),
    (*DOT3_STATS, 19): lambda _: integer(_FULL_DUPLEX),
}


class SwitchObjects:
    """The SNMP objects of one switch: reads its state, and changes its settings. No subtree lies within another."""

    subtrees: Sequence[Oid] = (*_COLUMNS, BRIDGE_MIB, PSE_PORT)

    def __init__(self, firmware: SwitchFirmware) -> None:
        self._firmware = firmware
        self._octets = max(8, -(-len(firmware.ports) // 8))

    def values(self, subtree: Oid) -> Mapping[Oid, Value]:
        """Return all present values of a subtree, by OID."""
        if subtree == BRIDGE_MIB:
            return self._bridge()
        if subtree == PSE_PORT:
            return self._poe()
        return self._column(subtree, _COLUMNS[subtree])

    def test(self, changes: Sequence[tuple[Oid, Value]]) -> tuple[SnmpError, int]:
        """Check the changes as a whole. Return the first error and the number of its change, from 1 (no error: 0)."""
        draft = self._firmware.draft()
        for index, (name, value) in enumerate(changes, start=1):
            if error := self._change(draft, name, value):
                return error, index
        return SnmpError.NONE, 0

    async def commit(self, changes: Sequence[tuple[Oid, Value]]) -> None:
        """Apply the changes. Raises LabError."""
        draft = self._firmware.draft()
        for name, value in changes:
            self._change(draft, name, value)
        await self._firmware.apply(draft)

    def _column(self, subtree: Oid, column: _Column) -> dict[Oid, Value]:
        now = self._firmware.snapshot()
        speeds = self._firmware.speeds_mbps
        return {
            (*subtree, link.index): column(
                _DeviceRow(link, now.counted[name], speeds.get(name, 0) if link.carrier else 0)
            )
            for name, link in now.links.items()
        }

    def _bridge(self) -> dict[Oid, Value]:
        firmware = self._firmware
        now = firmware.snapshot()
        found = {
            (*BRIDGE_MIB, 1, 1, 0): octets(bytes.fromhex(now.links[firmware.ports[0]].mac.replace(":", ""))),
            (*BRIDGE_MIB, 1, 2, 0): integer(len(firmware.ports)),
            (*BRIDGE_MIB, 1, 3, 0): integer(2),  # transparent only
            (*BRIDGE_MIB, 7, 1, 1, 1, 0): integer(1),
            (*BRIDGE_MIB, 7, 1, 1, 2, 0): integer(LARGEST_VLAN),
            (*BRIDGE_MIB, 7, 1, 1, 3, 0): gauge(LARGEST_VLAN),
            (*BRIDGE_MIB, 7, 1, 1, 4, 0): gauge(len(firmware.vlans.vlans)),
        }
        for port, number in firmware.numbers.items():
            found[*BASE_PORT_IF_INDEX, number] = integer(now.links[port].index)
            found[*PVID, number] = gauge(firmware.vlans.pvid[number])
        for vid, vlan in firmware.vlans.vlans.items():
            found[*VLAN_STATIC, 1, vid] = octets(vlan.name)
            found[*VLAN_STATIC, 2, vid] = octets(bitmap(vlan.egress, self._octets))
            found[*VLAN_STATIC, 3, vid] = octets(bytes(self._octets))
            found[*VLAN_STATIC, 4, vid] = octets(bitmap(vlan.untagged, self._octets))
            found[*VLAN_STATIC, 5, vid] = integer(RowStatus.ACTIVE)
        return found | self._learned(now)

    def _learned(self, now: KernelState) -> dict[Oid, Value]:
        """Return the forwarding table in the form of BRIDGE-MIB (all VLANs in one) and of Q-BRIDGE-MIB."""
        found: dict[Oid, Value] = {}
        numbers = {now.links[port].index: number for port, number in self._firmware.numbers.items()}
        for mac, index, _ in now.learned:
            if index not in numbers:
                continue
            number = numbers[index]
            address = bytes.fromhex(mac.replace(":", ""))
            found[*TP_FDB, 1, *address] = octets(address)
            for key in ((*TP_FDB,), (*Q_TP_FDB,)):
                row = address if key == TP_FDB else (self._firmware.vlans.pvid[number], *address)
                found[*key, 2, *row] = integer(number)
                found[*key, 3, *row] = integer(_LEARNED)
        return found

    def _poe(self) -> dict[Oid, Value]:
        found: dict[Oid, Value] = {}
        for port, number in self._firmware.numbers.items():
            enabled = self._firmware.poe(port)
            seen = _DELIVERING if self._firmware.feeds(port) else _SEARCHING
            found[*PSE_ADMIN_ENABLE, POE_GROUP, number] = integer(_TRUE if enabled else _FALSE)
            found[*PSE_PORT, 6, POE_GROUP, number] = integer(seen if enabled else _DISABLED)
        return found

    def _change(self, draft: Draft, name: Oid, value: Value) -> SnmpError:
        """Apply one change to the draft. Return the SNMP error."""
        match _split(name, (IF_ADMIN_STATUS, PVID, VLAN_STATIC, PSE_ADMIN_ENABLE)):
            case (column, (index,)) if column == IF_ADMIN_STATUS:
                return self._set_admin(draft, index, value)
            case (column, (number,)) if column == PVID:
                return self._set_pvid(draft, number, value)
            case (column, (member, vid)) if column == VLAN_STATIC:
                return self._set_vlan(draft, member, vid, value)
            case (column, (group, number)) if column == PSE_ADMIN_ENABLE:
                return self._set_poe(draft, group, number, value)
        return SnmpError.NOT_WRITABLE

    def _set_admin(self, draft: Draft, index: int, value: Value) -> SnmpError:
        if error := _choice_error(value, (_UP, _DOWN)):
            return error
        port = next((p for p in self._firmware.ports if self._firmware.snapshot().links[p].index == index), None)
        if port is None:
            return SnmpError.NOT_WRITABLE
        draft.admin[port] = value.data == _UP
        return SnmpError.NONE

    def _set_pvid(self, draft: Draft, number: int, value: Value) -> SnmpError:
        if value.kind != SnmpType.GAUGE32 or not isinstance(value.data, int):
            return SnmpError.WRONG_TYPE
        if number not in draft.vlans.pvid:
            return SnmpError.INCONSISTENT_NAME
        if value.data not in draft.vlans.vlans:
            return SnmpError.INCONSISTENT_VALUE
        draft.vlans.pvid[number] = value.data
        return SnmpError.NONE

    def _set_vlan(self, draft: Draft, member: int, vid: int, value: Value) -> SnmpError:
        if member == 5:
            return _set_row(draft, vid, value)
        if member not in (1, 2, 4):
            return SnmpError.NOT_WRITABLE
        if value.kind != SnmpType.OCTETS or not isinstance(value.data, bytes):
            return SnmpError.WRONG_TYPE
        vlan = draft.vlans.vlans.get(vid)
        if vlan is None:
            return SnmpError.INCONSISTENT_NAME
        if member == 1:
            vlan.name = value.data
            return SnmpError.NONE if len(value.data) <= _LONGEST_NAME else SnmpError.WRONG_VALUE
        ports = ports_of(value.data)
        if not ports <= draft.vlans.pvid.keys():
            return SnmpError.WRONG_VALUE
        if member == 2:
            vlan.egress = ports
        else:
            vlan.untagged = ports
        return SnmpError.NONE

    def _set_poe(self, draft: Draft, group: int, number: int, value: Value) -> SnmpError:
        if error := _choice_error(value, (_TRUE, _FALSE)):
            return error
        if group != POE_GROUP or number not in draft.vlans.pvid:
            return SnmpError.INCONSISTENT_NAME
        draft.poe[self._firmware.ports[number - 1]] = value.data == _TRUE
        return SnmpError.NONE


def _set_row(draft: Draft, vid: int, value: Value) -> SnmpError:
    """Set the RowStatus of a VLAN (RFC 2579). Return the SNMP error."""
    vlans = draft.vlans.vlans
    if not 1 <= vid <= LARGEST_VLAN:
        return SnmpError.INCONSISTENT_NAME
    match value.data:
        case _ if value.kind != SnmpType.INTEGER:
            return SnmpError.WRONG_TYPE
        case RowStatus.ACTIVE:
            return SnmpError.NONE if vid in vlans else SnmpError.INCONSISTENT_VALUE
        case RowStatus.CREATE_AND_GO if vid not in vlans:
            vlans[vid] = Vlan()
            return SnmpError.NONE
        case RowStatus.DESTROY:
            # The PVID of a port must stay: the switch puts received frames into this VLAN.
            if vid == DEFAULT_VLAN or vid in draft.vlans.pvid.values():
                return SnmpError.INCONSISTENT_VALUE
            vlans.pop(vid, None)
            return SnmpError.NONE
        case RowStatus.CREATE_AND_GO | RowStatus.CREATE_AND_WAIT:
            return SnmpError.INCONSISTENT_VALUE
    return SnmpError.WRONG_VALUE


def _choice_error(value: Value, accepted: Sequence[int]) -> SnmpError:
    if value.kind != SnmpType.INTEGER:
        return SnmpError.WRONG_TYPE
    return SnmpError.NONE if value.data in accepted else SnmpError.WRONG_VALUE


def _split(name: Oid, columns: Sequence[Oid]) -> tuple[Oid, Oid] | None:
    return next(((c, name[len(c) :]) for c in columns if name[: len(c)] == c), None)


def bitmap(ports: Iterable[int], size: int) -> bytes:
    """Return a PortList (RFC 4363): port 1 is the highest bit of the first octet."""
    found = bytearray(size)
    for port in ports:
        found[(port - 1) // 8] |= 0x80 >> ((port - 1) % 8)
    return bytes(found)


def ports_of(data: Sequence[int]) -> frozenset[int]:
    """Return the ports in a PortList. The reverse of ``bitmap``."""
    return frozenset(8 * i + bit + 1 for i, octet in enumerate(data) for bit in range(8) if octet & 0x80 >> bit)
