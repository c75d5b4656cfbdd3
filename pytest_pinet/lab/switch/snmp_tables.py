"""The SNMP objects that we use, as numbers, so that no MIB files are needed. The names are from the RFCs."""

from __future__ import annotations

from pytest_pinet.lab.switch.snmp_client import Oid

_MIB_2: Oid = (1, 3, 6, 1, 2, 1)
SYS_OBJECT_ID: Oid = (*_MIB_2, 1, 2, 0)
SYS_UP_TIME: Oid = (*_MIB_2, 1, 3, 0)
# The advisory lock between managers (RFC 3418): the agent refuses a whole set that carries an outdated number.
SET_SERIAL: Oid = (1, 3, 6, 1, 6, 3, 1, 1, 6, 1, 0)

# IF-MIB (RFC 2863)
_IF: Oid = (*_MIB_2, 2, 2, 1)
_IFX: Oid = (*_MIB_2, 31, 1, 1, 1)
IF_DESCR: Oid = (*_IF, 2)
IF_PHYS_ADDRESS: Oid = (*_IF, 6)
IF_ADMIN_STATUS: Oid = (*_IF, 7)
IF_OPER_STATUS: Oid = (*_IF, 8)
IF_IN_OCTETS: Oid = (*_IF, 10)
IF_IN_DISCARDS: Oid = (*_IF, 13)
IF_IN_ERRORS: Oid = (*_IF, 14)
IF_OUT_OCTETS: Oid = (*_IF, 16)
IF_OUT_DISCARDS: Oid = (*_IF, 19)
IF_OUT_ERRORS: Oid = (*_IF, 20)
IF_NAME: Oid = (*_IFX, 1)
IF_HC_IN_OCTETS: Oid = (*_IFX, 6)
IF_HC_OUT_OCTETS: Oid = (*_IFX, 10)
IF_HIGH_SPEED: Oid = (*_IFX, 15)
IF_ALIAS: Oid = (*_IFX, 18)
IF_DISCONTINUITY: Oid = (*_IFX, 19)
UP, DOWN = 1, 2

# EtherLike-MIB (RFC 3635)
DUPLEX: Oid = (*_MIB_2, 10, 7, 2, 1, 19)
DUPLEX_WORDS = {2: "half", 3: "full"}

# BRIDGE-MIB (RFC 4188): bridge ports have their own numbers, which differ from the interface numbers.
_BRIDGE: Oid = (*_MIB_2, 17)
BRIDGE_PORT_INTERFACE: Oid = (*_BRIDGE, 1, 4, 1, 2)
BRIDGE_AGING_TIME: Oid = (*_BRIDGE, 4, 2)
FDB_PORT: Oid = (*_BRIDGE, 4, 3, 1, 2)
FDB_STATUS: Oid = (*_BRIDGE, 4, 3, 1, 3)

# Q-BRIDGE-MIB (RFC 4363)
_VLAN: Oid = (*_BRIDGE, 7, 1, 4, 3, 1)
VLAN_FDB_PORT: Oid = (*_BRIDGE, 7, 1, 2, 2, 1, 2)
VLAN_FDB_STATUS: Oid = (*_BRIDGE, 7, 1, 2, 2, 1, 3)
VLAN_NAME: Oid = (*_VLAN, 1)
VLAN_EGRESS: Oid = (*_VLAN, 2)
VLAN_UNTAGGED: Oid = (*_VLAN, 4)
VLAN_ROW_STATUS: Oid = (*_VLAN, 5)
PVID: Oid = (*_BRIDGE, 7, 1, 4, 5, 1, 1)
ACTIVE, CREATE_AND_GO, DESTROY = 1, 4, 6
LEARNED = 3

# POWER-ETHERNET-MIB (RFC 3621)
PSE_ADMIN_ENABLE: Oid = (*_MIB_2, 105, 1, 1, 1, 3)
TRUE, FALSE = 1, 2

# LLDP-MIB (IEEE 802.1AB-2005)
_LLDP: Oid = (1, 0, 8802, 1, 1, 2, 1)
LLDP_LOCAL_ID_KIND: Oid = (*_LLDP, 3, 7, 1, 2)
LLDP_LOCAL_ID: Oid = (*_LLDP, 3, 7, 1, 3)
LLDP_LOCAL_DESCR: Oid = (*_LLDP, 3, 7, 1, 4)
LLDP_PORT_KIND: Oid = (*_LLDP, 4, 1, 1, 6)
LLDP_PORT: Oid = (*_LLDP, 4, 1, 1, 7)
LLDP_PORT_DESCR: Oid = (*_LLDP, 4, 1, 1, 8)
LLDP_SYSTEM: Oid = (*_LLDP, 4, 1, 1, 9)


def has_port(mask: bytes, port: int) -> bool:
    """Return whether a PortList contains a port; ports count from 1, the first is the highest bit."""
    byte = (port - 1) // 8
    return byte < len(mask) and bool(mask[byte] & (0x80 >> (port - 1) % 8))


def with_port(mask: bytes, port: int, member: bool) -> bytes:
    """Return a PortList with or without a port, no shorter than before: some agents accept only their own length."""
    byte = (port - 1) // 8
    changed = bytearray(mask.ljust(byte + 1, b"\0") if member else mask)
    if member:
        changed[byte] |= 0x80 >> (port - 1) % 8
    elif byte < len(changed):
        changed[byte] &= ~(0x80 >> (port - 1) % 8) & 0xFF
    return bytes(changed)


def mac(octets: bytes | Oid) -> str:
    """Return six octets in the notation of messages."""
    return ":".join(f"{octet:02x}" for octet in octets)


def text(value: object) -> str:
    """Return octets as text; some agents pad them with zeros."""
    return value.decode("utf-8", "replace").strip("\0 ") if isinstance(value, bytes) else ""
