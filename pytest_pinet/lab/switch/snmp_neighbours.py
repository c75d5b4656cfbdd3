"""The neighbours that a switch reports by SNMP: from LLDP, and from the table of learned MAC addresses.

The tables have port numbers of their own. What a number means, the switch's list of bridge ports says; but the tables
of some switches do not follow the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_pinet.lab.switch import snmp_tables as mib
from pytest_pinet.lab.switch.snmp_client import Oid, SnmpClient, Value
from pytest_pinet.lab.switch.switchport import Capability, Neighbour

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
