"""Speeds, counters, MAC addresses and port names in the formats of switches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_pinet.catalogue.load import built_in
from pytest_pinet.doctor.bench import Status
from pytest_pinet.doctor.links import describe
from pytest_pinet.errors import Where
from pytest_pinet.lab.switch import cli_family, switchport
from pytest_pinet.lab.switch.cli import count, mac, same_port, speed_mbps
from pytest_pinet.lab.switch.switchport import About


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("1000", 1000),
        ("a-100", 100),
        ("a-1000", 1000),
        ("a-2.5G", 2500),
        ("1000M", 1000),
        ("10G", 10_000),
        ("10Gig", 10_000),
        ("2.5Gbps", 2500),
        ("100Mbps", 100),
        ("10Gb/s", 10_000),
        ("auto", None),
        ("a-", None),
        ("N/A", None),
        ("--", None),
        ("9" * 400 + "Gbps", None),
        (None, None),
    ],
)
def test_speed(text: str | None, speed: int | None) -> None:
    assert speed_mbps(text) == speed


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("43,228,258", 43_228_258),
        ("5 880 759 393", 5_880_759_393),
        ("", None),
        ("n/a", None),
        ("9" * 5000, None),
        (None, None),
    ],
)
def test_count(text: str | None, number: int | None) -> None:
    assert count(text) == number


@pytest.mark.parametrize(
    "text", ["dca6.3200.0001", "dca632-000001", "DC:A6:32:00:00:01", "dc-a6-32-00-00-01", "dc a6 32 00 00 01"]
)
def test_mac(text: str) -> None:
    assert mac(text) == "dc:a6:32:00:00:01"


@pytest.mark.parametrize("text", ["10.65.1.11", "Gi1/0/16", "", None])
def test_no_mac(text: str | None) -> None:
    assert mac(text) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Gi1/0/1", "GigabitEthernet1/0/1", True),
        ("gigabitEthernet 1/0/1", "Gi1/0/1", True),
        ("gi1", "gi1", True),
        ("ether1", "ether10", False),
        ("Gi1/0/1", "Te1/0/1", False),
        ("Gi1/0/1", "1/0/1", False),
        ("0/1", "0/1", True),
        ("1", "11", False),
        ("sfp-sfpplus1", "sfp-sfpplus1", True),
        ("lan", "LAN", True),
        ("lan", "wan", False),
    ],
)
def test_same_port(one: str, other: str, same: bool) -> None:
    assert same_port(one, other) is same
    assert same_port(other, one) is same


DOCS = Path(__file__).parents[4] / "docs" / "reference" / "switches.md"


@pytest.mark.parametrize(
    ("object_id", "title"),
    [
        ("1.3.6.1.4.1.8072.3.2.10", "net-snmp"),
        ("1.3.6.1.4.1.11.2.3.7.11.181", "HPE ProCurve, Aruba AOS-S"),
        # Cisco's two kinds share an enterprise number, and MikroTik's begins with HP's digits.
        ("1.3.6.1.4.1.9.6.1.1005.28.5", "Cisco Small Business"),
        ("1.3.6.1.4.1.9.1.1208", "Cisco Catalyst (IOS, IOS XE)"),
        ("1.3.6.1.4.1.14988.1", "MikroTik RouterOS"),
        ("1.3.6.1.4.1.118", "another SNMP agent"),
        ("", "another SNMP agent"),
    ],
)
def test_an_agent_is_known_by_its_object_id(object_id: str, title: str) -> None:
    assert switchport.snmp_kind(object_id).title == title


def every_kind() -> dict[tuple[str, str], About]:
    """Return what is known about each kind, by backend and title."""
    found = {(backend, kind.title): kind for backend, listed in switchport.kinds().items() for kind in listed}
    for name in built_in():
        family = cli_family.load(name, Where("lab.yaml", 1))
        found["cli", family.title] = About(family.title, tuple(family.tested_on), tuple(family.sources))
    return found


def test_each_kind_says_what_it_was_checked_against() -> None:
    assert [title for (_, title), about in every_kind().items() if not about.sources] == []


def test_only_what_ran_is_called_tested() -> None:
    tested = {title for (_, title), about in every_kind().items() if not about.is_untested}
    assert tested == {"Linux bridge", "net-snmp"}


def test_the_documentation_lists_the_same_kinds() -> None:
    rows = re.findall(r"^\| (.+?) \| `(cli|linux|snmp)`.*? \| (untested|.+?) \| .+ \|$", DOCS.read_text(), re.MULTILINE)
    documented = {(backend, title): mark == "untested" for title, backend, mark in rows}
    assert documented == {key: about.is_untested for key, about in every_kind().items()}


def test_an_own_family_is_untested_until_its_file_says_where_it_ran(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("one: {like: cisco_ios}\ntwo: {like: cisco_ios, tested_on: [IOS 15.2 on a 2960-X]}\n")
    where = Where("lab.yaml", 1)
    assert cli_family.load("one", where, str(file)).tested_on == []
    assert cli_family.load("two", where, str(file)).tested_on == ["IOS 15.2 on a 2960-X"]


def test_doctor_names_an_untested_switch_and_what_it_was_checked_against() -> None:
    (finding,) = describe("sw1", About("Acme 24", (), ("the manual", "answers in public test data")))
    assert (finding.status, finding.node) == (Status.UNKNOWN, None)
    assert finding.message == (
        "switch sw1: Acme 24 is untested: pytest-pinet never ran with the vendor's software. Checked against: the "
        "manual; answers in public test data"
    )


def test_doctor_says_that_a_switch_cannot_be_set() -> None:
    (finding,) = describe("sw1", About("net-snmp", ("net-snmp 5.9",), note="this community may only read it"))
    assert finding.message == "switch sw1 is used as it is wired, because this community may only read it"


def test_doctor_finds_nothing_wrong_with_a_tested_switch() -> None:
    (finding,) = describe("sw1", About("net-snmp", ("net-snmp 5.9",)))
    assert (finding.status, finding.message) == (Status.OK, "sw1: net-snmp")
