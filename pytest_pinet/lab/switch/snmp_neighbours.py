"""The neighbours of a port: from the LLDP-MIB, and from the MAC addresses that the bridge has learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.lab.switch.snmp_client import Oid, SnmpClient, Value
from pytest_pinet.lab.switch.snmp_tables import (
    BRIDGE_PORT_INTERFACE,
    FDB_PORT,
    FDB_STATUS,
    IF_PHYS_ADDRESS,
    LEARNED,
    LLDP_LOCAL_DESCR,
    LLDP_LOCAL_ID,
    LLDP_LOCAL_ID_KIND,
    LLDP_PORT,
    LLDP_PORT_DESCR,
    LLDP_PORT_KIND,
    LLDP_SYSTEM,
    VLAN_FDB_PORT,
    VLAN_FDB_STATUS,
    mac,
    text,
)
from pytest_pinet.lab.switch.switchport import Capability, Neighbour

# Subtypes of port identifiers (IEEE 802.1AB): interface alias, MAC address, interface name, locally assigned.
_PORT_NAMES = (1, 5, 7)
_PORT_MAC = 3
_Columns = Mapping[Oid, Mapping[Oid, Value]]


@dataclass(frozen=True)
class Numbering:
    """How the agent numbers its ports: names to interfaces, and bridge ports to interfaces."""

    names: Mapping[str, int]
    interfaces: Mapping[int, int]


def by_lldp(client: SnmpClient, numbering: Numbering) -> list[tuple[int, Neighbour]]:
    """Return the neighbours that LLDP reports, by interface number."""
    local = client.columns([LLDP_LOCAL_ID_KIND, LLDP_LOCAL_ID, LLDP_LOCAL_DESCR, IF_PHYS_ADDRESS])
    remote = client.columns([LLDP_PORT_KIND, LLDP_PORT, LLDP_PORT_DESCR, LLDP_SYSTEM])
    found = []
    for index in remote[LLDP_PORT]:
        # Time mark, local port number, and a running number.
        interface = _local_interface(index[1:2], local, numbering)
        if interface is not None:
            found.append((interface, _neighbour(index, remote)))
    return found


def _local_interface(number: Oid, local: _Columns, numbering: Numbering) -> int | None:
    """Return the interface of an LLDP port number; its LLDP identifier says which interface it is."""
    identifier = local[LLDP_LOCAL_ID].get(number, b"")
    for name in (text(identifier), text(local[LLDP_LOCAL_DESCR].get(number))):
        if name in numbering.names:
            return numbering.names[name]
    if local[LLDP_LOCAL_ID_KIND].get(number) == _PORT_MAC:
        same = [index[0] for index, address in local[IF_PHYS_ADDRESS].items() if address == identifier]
        if len(same) == 1:
            return same[0]
    # In 802.1AB, bridges use their bridge port numbers.
    return numbering.interfaces.get(number[0])


def _neighbour(index: Oid, remote: _Columns) -> Neighbour:
    port, kind = remote[LLDP_PORT].get(index), remote[LLDP_PORT_KIND].get(index)
    # The MAC address of the chassis usually belongs to another NIC.
    address = port if kind == _PORT_MAC else None
    name = text(port) if kind in _PORT_NAMES else text(remote[LLDP_PORT_DESCR].get(index))
    return Neighbour(
        Capability.LLDP,
        mac=mac(address) if isinstance(address, bytes) and len(address) == 6 else None,
        system=text(remote[LLDP_SYSTEM].get(index)) or None,
        port=name or None,
    )


def by_fdb(client: SnmpClient) -> list[tuple[int, Neighbour]]:
    """Return the learned MAC addresses, by interface number. Reads all tables again, since ports come and go."""
    columns = client.columns([VLAN_FDB_PORT, VLAN_FDB_STATUS, FDB_PORT, FDB_STATUS, BRIDGE_PORT_INTERFACE])
    interfaces = {index[0]: value for index, value in columns[BRIDGE_PORT_INTERFACE].items()}
    # The first table has an entry of an address for each VLAN. Older switches have only the second table.
    ports, status = (VLAN_FDB_PORT, VLAN_FDB_STATUS) if columns[VLAN_FDB_PORT] else (FDB_PORT, FDB_STATUS)
    found = []
    for index, port in columns[ports].items():
        interface = interfaces.get(port) if isinstance(port, int) else None
        if isinstance(interface, int) and columns[status].get(index, LEARNED) == LEARNED:
            found.append((interface, Neighbour(Capability.FDB, mac=mac(index[-6:]))))
    return found
