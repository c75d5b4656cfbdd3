"""Port lists, access VLANs and port names as SNMP tells them."""

from __future__ import annotations

import pytest

from pytest_pinet.lab import snmp_tables as mib
from pytest_pinet.lab.snmp_bridge import access_vlan
from pytest_pinet.lab.snmp_client import Oid
from pytest_pinet.lab.switch_snmp import port_names


@pytest.mark.parametrize(("port", "mask"), [(1, "80"), (8, "01"), (9, "0080"), (26, "00000040")])
def test_the_first_port_is_the_highest_bit(port: int, mask: str) -> None:
    octets = bytes.fromhex(mask)
    assert mib.with_port(b"", port, True) == octets
    assert mib.has_port(octets, port)
    assert not mib.has_port(octets, port + 1)
    # A list keeps its length: some agents take no other.
    assert mib.with_port(octets, port, False) == bytes(len(octets))
    assert mib.with_port(b"", port, False) == b""


@pytest.mark.parametrize(
    ("pvid", "untagged", "vlan"),
    [
        (1, {(1,): b"\xff"}, 1),
        (3900, {(1,): b"\x7f", (3900,): b"\x80"}, 3900),
        # Not taken out of its old VLAN, never put into its new one, in two at once.
        (3900, {(1,): b"\xff", (3900,): b"\x80"}, None),
        (3900, {(1,): b"\x7f", (3900,): b"\x00"}, None),
        (1, {(1,): b"\x7f", (3900,): b"\x80"}, None),
        (None, {(1,): b"\xff"}, None),
        # An agent that does not show who is in a VLAN has only this to tell.
        (7, {}, 7),
    ],
)
def test_an_access_vlan_is_one_both_ways(pvid: int | None, untagged: dict[Oid, bytes], vlan: int | None) -> None:
    assert access_vlan(pvid, 1, untagged) == vlan


def test_a_port_is_found_by_name_description_alias_or_number() -> None:
    names = port_names(
        {
            mib.IF_NAME: {(1,): b"g1", (2,): b"g2", (3,): b""},
            mib.IF_DESCR: {(1,): b"Port 1", (2,): b"Port 2", (3,): b"g1"},
            mib.IF_ALIAS: {(1,): b"rack", (2,): b"rack", (3,): b"uplink\0"},
        }
    )
    # Who bears a name comes before who is described by it; what two bear names none.
    assert names == {"g1": 1, "g2": 2, "Port 1": 1, "Port 2": 2, "uplink": 3, "1": 1, "2": 2, "3": 3}
