"""VLANs and neighbours of ports by SNMP: Q-BRIDGE-MIB, LLDP-MIB and the table of learned addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_pinet.errors import SwitchError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab import contention
from pytest_pinet.lab.switch import snmp_tables as mib
from pytest_pinet.lab.switch.snmp_client import Oid, Refusal, SnmpClient, Unsigned, Value
from pytest_pinet.lab.switch.switchport import Capability, Neighbour

# Another manager may change the same port list after we read it and before we set it.
MASK_TRIES = 5
TURN_TIMEOUT_S = 30.0
# On some switches a new VLAN appears with a delay.
MADE_TIMEOUT_S = 2.0
_INCONSISTENT_VALUE = 12
_Sets = list[tuple[Oid, int | bytes]]


def access_vlan(pvid: Value | None, port: int, untagged: Mapping[Oid, Value]) -> int | None:
    """Return the access VLAN of a bridge port, or None if it is not in exactly one; ``untagged`` is that column."""
    if not isinstance(pvid, int):
        return None
    sent = [vlan for (vlan,), mask in untagged.items() if isinstance(mask, bytes) and mib.has_port(mask, port)]
    if not untagged or sent == [pvid]:
        return pvid
    return None


class SnmpVlanTable:
    """Moves bridge ports between VLANs. ``key`` identifies the switch in the queue of this host."""

    def __init__(self, client: SnmpClient, key: str) -> None:
        self._client = client
        self._key = key
        # net-snmp 5.9 has the serial number, and refuses to set it on 64-bit machines (wrongLength).
        self._has_serial = True

    def move(self, vlans: Mapping[int, int]) -> None:
        """Put bridge ports into access VLANs; missing VLANs are created. Raises SwitchError.

        All ports of a VLAN share its member lists, so two managers at the same time could undo each other's change.
        Runners of one host therefore take turns. Against other managers, the set carries the agent's serial number, if
        the agent supports it; the result is read again, and the change is repeated if another manager was first.
        """
        with contention.exclusive(self._key, ["VLAN lists"], TURN_TIMEOUT_S, lambda _: None):
            self._create(set(vlans.values()))
            pvids: _Sets = [((*mib.PVID, port), Unsigned(vlan)) for port, vlan in vlans.items()]
            for attempt in range(MASK_TRIES):
                serial = self._client.get([mib.SET_SERIAL])[0] if self._has_serial else None
                columns = self._client.columns([mib.VLAN_EGRESS, mib.VLAN_UNTAGGED])
                joining, leaving = _changes(columns[mib.VLAN_EGRESS], columns[mib.VLAN_UNTAGGED], vlans)
                if not pvids and not joining and not leaving:
                    return
                if self._set(serial, pvids, joining, leaving, last=attempt == MASK_TRIES - 1):
                    pvids = []

    def _set(self, serial: Value | None, pvids: _Sets, joining: _Sets, leaving: _Sets, last: bool) -> bool:
        """Return whether the change was set; if not, it must be computed again."""
        lock: _Sets = [(mib.SET_SERIAL, serial)] if isinstance(serial, int) else []
        try:
            self._client.set([*lock, *pvids, *joining, *leaving])
        except Refusal as refusal:
            if refusal.not_allowed or last:
                raise
            if lock and refusal.oid == mib.SET_SERIAL:
                self._has_serial = refusal.status == _INCONSISTENT_VALUE
                return False
            self._set_in_steps(pvids, joining, leaving)
        return True

    def _set_in_steps(self, pvids: _Sets, joining: _Sets, leaving: _Sets) -> None:
        """Set in steps, if one request is refused. A port in two VLANs for a moment is better than one in none."""
        try:
            self._client.set_each(pvids)
            pvids = []
        except Refusal as refusal:
            if refusal.not_allowed:
                raise
        self._client.set_each(joining)
        # Some switches require the membership first.
        self._client.set_each(pvids)
        self._client.set_each(leaving)

    def remove(self, vlan: int) -> None:
        """Delete a VLAN without members; does nothing if it does not exist or has members."""
        row: Oid = (*mib.VLAN_ROW_STATUS, vlan)
        status, egress = self._client.get([row, (*mib.VLAN_EGRESS, vlan)])
        if status is None or (isinstance(egress, bytes) and any(egress)):
            return
        try:
            self._client.set([(row, mib.DESTROY)])
        except Refusal as refusal:
            # Another runner has just put a port into this VLAN.
            if refusal.status != _INCONSISTENT_VALUE:
                raise

    def _create(self, vlans: Iterable[int]) -> None:
        rows = {vlan: (*mib.VLAN_ROW_STATUS, vlan) for vlan in sorted(vlans)}
        found = self._client.get([*rows.values()])
        missing = [vlan for vlan, status in zip(rows, found, strict=True) if status != mib.ACTIVE]
        if not missing:
            return
        named: _Sets = []
        for vlan in missing:
            named += [(rows[vlan], mib.CREATE_AND_GO), ((*mib.VLAN_NAME, vlan), f"pinet-{vlan}".encode())]
        try:
            self._client.set(named)
        except Refusal as refusal:
            if refusal.not_allowed:
                raise
            for vlan in missing:
                self._create_one(rows[vlan])
        wanted = [rows[vlan] for vlan in missing]
        if not Deadline(MADE_TIMEOUT_S).wait_until(lambda: set(self._client.get(wanted)) == {mib.ACTIVE}):
            absent = [v for v, status in zip(missing, self._client.get(wanted), strict=True) if status != mib.ACTIVE]
            raise SwitchError(
                f"switch {self._client.name} accepted VLAN {(absent or missing)[0]}, but did not create it",
                "the lab's admin: look at the switch; its firmware or the rights of this user prevent the change",
            )

    def _create_one(self, row: Oid) -> None:
        """Create one VLAN without a name. It may exist already: an answer was lost, or another manager created it."""
        try:
            self._client.set([(row, mib.CREATE_AND_GO)])
        except Refusal:
            if self._client.get([row]) != [mib.ACTIVE]:
                raise


def _changes(
    egress: Mapping[Oid, Value], untagged: Mapping[Oid, Value], vlans: Mapping[int, int]
) -> tuple[_Sets, _Sets]:
    """Return the changes: lists that ports join, and lists that ports leave. Tagged membership is not touched."""
    length = max((len(mask) for mask in egress.values() if isinstance(mask, bytes)), default=0)
    joining: _Sets = []
    leaving: _Sets = []
    for index in sorted({*untagged, *((vlan,) for vlan in vlans.values())}):
        for column, masks in ((mib.VLAN_EGRESS, egress), (mib.VLAN_UNTAGGED, untagged)):
            found = masks.get(index, b"")
            old = found if isinstance(found, bytes) else b""
            new = old.ljust(length, b"\0")
            sent = untagged.get(index, b"")
            for port, vlan in vlans.items():
                if (vlan,) == index:
                    new = mib.with_port(new, port, True)
                elif isinstance(sent, bytes) and mib.has_port(sent, port):
                    new = mib.with_port(new, port, False)
            if new.rstrip(b"\0") != old.rstrip(b"\0"):
                joins = any((vlan,) == index for vlan in vlans.values())
                (joining if joins else leaving).append(((*column, *index), new))
    return joining, leaving


# The neighbours that a switch reports by SNMP: from LLDP, and from the table of learned MAC addresses.
#
# The tables have port numbers of their own. What a number means, the switch's list of bridge ports says; but the tables
# of some switches do not follow the list.


# Subtypes of port identifiers (IEEE 802.1AB): interface alias, MAC address, interface name, locally assigned.
_PORT_NAMES = (1, 5, 7)
_PORT_MAC = 3
# The tables of a numbering.
_NUMBERING = (mib.BRIDGE_PORT_INTERFACE, mib.IF_OPER_STATUS)
_Columns = Mapping[Oid, Mapping[Oid, Value]]


@dataclass(frozen=True)
class PortNumbering:
    """What the port numbers of one table mean.

    A table should use the bridge ports of the switch's port list (``listed``: interfaces by bridge port). Some switches
    use the numbers of interfaces, or others. So a number names a port only if both readings agree, or if the switch
    excludes the reading as an interface. ``used`` are the numbers in the table, ``down`` the interfaces without a link.
    ``wanted`` are the interfaces of the lab's ports, ``known`` all interfaces.
    """

    listed: Mapping[int, int]
    used: Collection[int]
    down: Collection[int]
    wanted: Collection[int]
    known: Collection[int]

    def interface(self, number: Value) -> int | None:
        """Return the interface of this number, or None if it is not certain."""
        if not isinstance(number, int) or not self._is_bridge_port(number):
            return None
        interface = self.listed[number]
        if interface == number:
            return interface if interface in self.wanted or self._is_complete else None
        is_proven = self._is_complete and (self._follows_list or not self._is_interface(number))
        return interface if is_proven else None

    def _is_bridge_port(self, number: int) -> bool:
        return self.listed.get(number) in self.known

    def _is_interface(self, number: int) -> bool:
        return number in self.listed.values() and number not in self.down

    @cached_property
    def _is_complete(self) -> bool:
        """Whether the list has all ports of the lab. The list of some switches has parts of ports in their place."""
        return set(self.wanted) <= set(self.listed.values())

    @cached_property
    def _follows_list(self) -> bool:
        """Whether some number of the table can only be a bridge port, and none only an interface."""
        readings = {(self._is_bridge_port(number), self._is_interface(number)) for number in self.used}
        return (True, False) in readings and (False, True) not in readings


def _numbering(
    columns: _Columns, used: Iterable[Value], names: Mapping[str, int], wanted: Collection[int]
) -> PortNumbering:
    """Return the numbering of a table. ``columns`` has the port list and the state of the links."""
    return PortNumbering(
        listed={index[0]: n for index, n in columns[mib.BRIDGE_PORT_INTERFACE].items() if isinstance(n, int)},
        used={number for number in used if isinstance(number, int)},
        down={index[0] for index, status in columns[mib.IF_OPER_STATUS].items() if status == mib.DOWN},
        wanted=wanted,
        known=set(names.values()),
    )


def by_lldp(
    client: SnmpClient, names: Mapping[str, int], wanted: Collection[int]
) -> list[tuple[int | None, Neighbour]]:
    """Return the neighbours that LLDP reports, by interface number; None: the interface is not certain."""
    own = (mib.LLDP_LOCAL_ID_KIND, mib.LLDP_LOCAL_ID, mib.LLDP_LOCAL_DESCR, mib.IF_PHYS_ADDRESS)
    local = client.columns([*own, *_NUMBERING])
    remote = client.columns([mib.LLDP_PORT_KIND, mib.LLDP_PORT, mib.LLDP_PORT_DESCR, mib.LLDP_SYSTEM])
    # Time mark, local port number, and a running number.
    numbers = {index: index[1] for index in remote[mib.LLDP_PORT] if len(index) > 1}
    numbering = _numbering(local, numbers.values(), names, wanted)
    found = []
    for index, number in numbers.items():
        interface = _local_interface(index[1:2], local, names)
        # In 802.1AB, bridges use their bridge port numbers.
        found.append((interface or numbering.interface(number), _neighbour(index, remote)))
    return found


def _local_interface(number: Oid, local: _Columns, names: Mapping[str, int]) -> int | None:
    """Return the interface that the identifier of an LLDP port number names."""
    identifier = local[mib.LLDP_LOCAL_ID].get(number, b"")
    for name in (mib.text(identifier), mib.text(local[mib.LLDP_LOCAL_DESCR].get(number))):
        if name in names:
            return names[name]
    if local[mib.LLDP_LOCAL_ID_KIND].get(number) == _PORT_MAC:
        same = [index[0] for index, address in local[mib.IF_PHYS_ADDRESS].items() if address == identifier]
        if len(same) == 1:
            return same[0]
    return None


def _neighbour(index: Oid, remote: _Columns) -> Neighbour:
    port, kind = remote[mib.LLDP_PORT].get(index), remote[mib.LLDP_PORT_KIND].get(index)
    # The MAC address of the chassis usually belongs to another NIC.
    address = port if kind == _PORT_MAC else None
    name = mib.text(port) if kind in _PORT_NAMES else mib.text(remote[mib.LLDP_PORT_DESCR].get(index))
    return Neighbour(
        Capability.LLDP,
        mac=mib.mac(address) if isinstance(address, bytes) and len(address) == 6 else None,
        system=mib.text(remote[mib.LLDP_SYSTEM].get(index)) or None,
        port=name or None,
    )


def by_fdb(client: SnmpClient, names: Mapping[str, int], wanted: Collection[int]) -> list[tuple[int | None, Neighbour]]:
    """Return the learned MAC addresses, by interface number; None: the interface is not certain.

    Reads all tables again, since ports come and go.
    """
    by_vlan, plain = (mib.VLAN_FDB_PORT, mib.VLAN_FDB_STATUS), (mib.FDB_PORT, mib.FDB_STATUS)
    columns = client.columns([*by_vlan, *plain, *_NUMBERING])
    # The first table has an entry of an address for each VLAN. Older switches have only the second table.
    ports, status = by_vlan if columns[mib.VLAN_FDB_PORT] else plain
    learned = {i: n for i, n in columns[ports].items() if columns[status].get(i, mib.LEARNED) == mib.LEARNED}
    numbering = _numbering(columns, learned.values(), names, wanted)
    return [
        (numbering.interface(number), Neighbour(Capability.FDB, mac=mib.mac(index[-6:])))
        for index, number in learned.items()
    ]
