"""What the port numbers in a switch's tables mean, and what is not certain about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from pytest_pinet.lab.switch import snmp_tables as mib
from pytest_pinet.lab.switch.snmp import port_names
from pytest_pinet.lab.switch.snmp_bridge import PortNumbering, access_vlan
from pytest_pinet.lab.switch.snmp_client import Oid

FORTISWITCH = {2: 1, 3: 2, 4: 3}


def interface(
    number: object,
    listed: Mapping[int, int],
    wanted: Collection[int],
    used: Collection[int] = (),
    down: Collection[int] = (),
    more: Collection[int] = (),
) -> int | None:
    known = {*wanted, *more}
    numbering = PortNumbering(listed, {*used, number}, down, wanted, known)  # type: ignore[arg-type]
    return numbering.interface(number)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("listed", "number", "found"),
    [
        ({n: n for n in range(1, 5)}, 3, 3),
        ({n: 1000 + n for n in range(1, 5)}, 3, 1003),
        ({n: 49152 + n for n in range(1, 5)}, 3, 49155),
    ],
)
def test_a_list_that_allows_one_reading_proves_the_port(listed: dict[int, int], number: int, found: int) -> None:
    assert interface(number, listed, listed.values()) == found


def test_a_port_that_the_lab_does_not_list_is_proven_too() -> None:
    # The cable is in another port of the switch: a wrong cable.
    assert interface(7, {n: n for n in range(1, 9)}, [1, 2], more=range(1, 9)) == 7


@pytest.mark.parametrize(
    ("listed", "number", "wanted", "more"),
    [
        # TP-Link JetStream (librenms #15594, #19126): the list counts interfaces, the table counts ports.
        ({49152 + n: 49152 + n for n in range(1, 5)}, 3, range(49153, 49157), ()),
        # Juniper EX (librenms #18145): the list leads to interfaces that do not exist, or to parts of ports.
        ({490 + n: 1080 + n for n in range(4)}, 493, range(518, 522), ()),
        ({490 + n: 1080 + n for n in range(4)}, 493, range(518, 522), range(1080, 1084)),
        # FortiSwitch (netxms #3287): the table has numbers of interfaces.
        (FORTISWITCH, 3, range(1, 5), ()),
        (FORTISWITCH, 3, range(1, 4), ()),
        (FORTISWITCH, 4, range(1, 5), ()),
        # RFC 4188: the port is not known.
        ({n: n for n in range(1, 5)}, 0, range(1, 5), ()),
        ({n: n for n in range(1, 5)}, b"3", range(1, 5), ()),
        ({}, 3, range(1, 5), ()),
    ],
)
def test_other_numbers_prove_no_port(
    listed: dict[int, int], number: object, wanted: Collection[int], more: Collection[int]
) -> None:
    assert interface(number, listed, wanted, more=more) is None


def test_the_rest_of_the_table_and_ports_without_a_link_exclude_a_reading() -> None:
    shifted = {1: 2, 2: 3, 3: 4, 4: 5}
    assert interface(3, shifted, range(2, 6)) is None
    # 1 is no interface of a port, so the table follows the list.
    assert interface(3, shifted, range(2, 6), used=[1, 3]) == 4
    # The interface 3 has no link, so 3 is not that interface.
    assert interface(3, shifted, range(2, 6), down=[3]) == 4
    # 5 is no bridge port, so the table does not follow the list.
    assert interface(3, shifted, range(2, 6), used=[1, 3, 5]) is None


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
