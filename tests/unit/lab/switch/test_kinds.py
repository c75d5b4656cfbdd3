"""The kinds of switches: which are untested, in the data, in the documentation and in ``pinet doctor``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_pinet.catalogue.load import built_in
from pytest_pinet.doctor.bench import Status
from pytest_pinet.doctor.links import describe
from pytest_pinet.errors import Where
from pytest_pinet.lab.switch import cli_family, kinds
from pytest_pinet.lab.switch.switchport import About

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
    assert kinds.snmp(object_id).title == title


def every_kind() -> dict[tuple[str, str], About]:
    """Return what is known about each kind, by backend and title."""
    found = {(backend, kind.title): kind.about for backend, listed in kinds.kinds().items() for kind in listed}
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
