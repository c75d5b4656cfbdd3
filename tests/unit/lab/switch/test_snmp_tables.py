"""Port lists, access VLANs and port names in SNMP tables."""

from __future__ import annotations

import pytest

from pytest_pinet.lab.switch import snmp_tables as mib
from pytest_pinet.lab.switch.snmp import port_names
from pytest_pinet.lab.switch.snmp_bridge import access_vlan
from pytest_pinet.lab.switch.snmp_client import Oid


@pytest.mark.parametrize(("port", "mask"), [(1, "80"), (8, "01"), (9, "0080"), (26, "00000040")])
def test_the_first_port_is_the_highest_bit(port: int, mask: str) -> None:
    octets = bytes.fromhex(mask)
    assert mib.with_port(b"", port, True) == octets
    assert mib.has_port(octets, port)
    assert not mib.has_port(octets, port + 1)
    # A list keeps its length, because some agents accept no other.
    assert mib.with_port(octets, port, False) == bytes(len(octets))
    assert mib.with_port(b"", port, False) == b""


@pytest.mark.parametrize(
    ("pvid", "untagged", "vlan"),
    [
        (1, {(1,): b"\xff"}, 1),
        (3900, {(1,): b"\x7f", (3900,): b"\x80"}, 3900),
        # Still in its old VLAN, never added to its new one, or in two at once.
        (3900, {(1,): b"\xff", (3900,): b"\x80"}, None),
        (3900, {(1,): b"\x7f", (3900,): b"\x00"}, None),
        (1, {(1,): b"\x7f", (3900,): b"\x80"}, None),
        (None, {(1,): b"\xff"}, None),
        # An agent without VLAN membership reports only this.
        (7, {}, 7),
    ],
)
def test_an_access_vlan_is_received_and_sent_untagged(
    pvid: int | None, untagged: dict[Oid, bytes], vlan: int | None
) -> None:
    assert access_vlan(pvid, 1, untagged) == vlan


def test_a_port_is_found_by_name_description_alias_or_number() -> None:
    names = port_names(
        {
            mib.IF_NAME: {(1,): b"g1", (2,): b"g2", (3,): b""},
            mib.IF_DESCR: {(1,): b"Port 1", (2,): b"Port 2", (3,): b"g1"},
            mib.IF_ALIAS: {(1,): b"rack", (2,): b"rack", (3,): b"uplink\0"},
        }
    )
    # A port's name has precedence over a description. A name that two ports have identifies none.
    assert names == {"g1": 1, "g2": 2, "Port 1": 1, "Port 2": 2, "uplink": 3, "1": 1, "2": 2, "3": 3}
