"""The shipped table of maintainers."""

from __future__ import annotations

from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.maintainers import parse_contacts, shipped_owners


def test_it_has_each_driver_of_the_catalogue() -> None:
    drivers = {nic.driver for nic in load().nics.values() if " " not in nic.driver}
    assert drivers - shipped_owners().keys() == set()
    for owner in shipped_owners().values():
        assert owner.file.startswith("drivers/net/")
        assert owner.to
        assert "netdev@vger.kernel.org" in owner.lists
        assert owner.source.startswith("MAINTAINERS of Linux ")


def test_mail_goes_to_the_people_of_the_driver() -> None:
    owner = shipped_owners()["bcmgenet"]
    assert owner.entries == ["BROADCOM GENET ETHERNET DRIVER"]
    assert [one.split("<")[0] for one in owner.to][:2] == ["Doug Berger ", "Florian Fainelli "]
    assert not any("davem" in one for one in owner.to)


def test_a_driver_without_an_entry_of_its_own_has_the_ones_of_its_kind() -> None:
    owner = shipped_owners()["r8152"]
    assert owner.lists == ["linux-usb@vger.kernel.org", "netdev@vger.kernel.org"]
    assert any("kuba@kernel.org" in one for one in owner.to)


def test_the_output_of_get_maintainer() -> None:
    found = parse_contacts(
        '"David S. Miller" <davem@davemloft.net> (maintainer:NETWORKING DRIVERS)\n'
        "Igor Russkikh <irusskikh@marvell.com> (supporter:AQUANTIA ETHERNET DRIVER (atlantic))\n"
        "linux-kernel@vger.kernel.org (open list)\nscripts/get_maintainer.pl: a warning\n"
    )
    assert [(one.role, one.entry, one.is_list) for one in found] == [
        ("maintainer", "NETWORKING DRIVERS", False),
        ("supporter", "AQUANTIA ETHERNET DRIVER (atlantic)", False),
        ("open list", "", True),
    ]
