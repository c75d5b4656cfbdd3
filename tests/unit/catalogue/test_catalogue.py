"""Every entry of the catalogue, and the maintainers of our drivers."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest

from pytest_pinet.builds.config_txt import pi_models
from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.maintainers import parse_contacts, shipped_owners
from pytest_pinet.config.yaml_lines import parse
from pytest_pinet.judge.oracle import TOLERANCE, highest_limit
from pytest_pinet.model.hardware import Bus, attached_bus

CATALOGUE = load()


def read(name: str) -> dict[str, Any]:
    """Read a catalogue file with our own reader, which also rejects duplicate keys."""
    data = parse(resources.files("pytest_pinet.catalogue").joinpath(name).read_text(encoding="utf-8"), name).data
    assert isinstance(data, dict)
    return data


PUBLISHED = read("published.yaml")
FIGURES: list[dict[str, Any]] = PUBLISHED["figures"]


@pytest.mark.parametrize("name", ["boards.yaml", "nics.yaml", "raspberry_pi_models.yaml"])
def test_every_key_of_an_entry_is_used(name: str) -> None:
    keys = {
        "boards.yaml": {"title", "clock_mhz", "cores", "buses", "onboard", "sources"},
        "nics.yaml": {
            *(
                "title",
                "chip",
                "driver",
                "bus",
                "speeds_mbps",
                "mtu_max",
                "wireless",
                "products",
                "ids",
                "sources",
            )
        },
        "raspberry_pi_models.yaml": {"titles", "filters", "kernels", "device_trees", "architectures"},
    }[name]
    for entry in read(name).values():
        assert set(entry) <= keys


def test_numbers_of_chips_have_the_form_of_the_kernel() -> None:
    numbers = [number for nic in CATALOGUE.nics.values() for number in nic.ids]
    assert numbers
    assert all(re.fullmatch(r"(usb|pci):[0-9a-f]{4}:[0-9a-f]{4}", number) for number in numbers)


def test_every_entry_has_sources() -> None:
    sources = {name: board.sources for name, board in CATALOGUE.boards.items()}
    sources |= {name: nic.sources for name, nic in CATALOGUE.nics.items()}
    for name, given in sources.items():
        assert given, name
        assert all(isinstance(source, str) and source for source in given)


def test_the_firmware_of_every_board_is_known() -> None:
    assert set(CATALOGUE.boards) <= set(pi_models())


def test_every_onboard_nic_is_there_and_fits_its_board() -> None:
    for board in CATALOGUE.boards.values():
        if board.onboard is not None:
            assert attached_bus(board, CATALOGUE.nics[board.onboard]) is CATALOGUE.nics[board.onboard].bus


def test_speeds_ascend_and_product_names_are_not_names_of_other_nics() -> None:
    products = [product for nic in CATALOGUE.nics.values() for product in nic.products]
    assert len(products) == len(set(products))
    assert not set(products) & set(CATALOGUE.nics)
    for nic in CATALOGUE.nics.values():
        assert list(nic.speeds_mbps) == sorted(set(nic.speeds_mbps))
        assert nic.mtu_max >= 1500


@pytest.mark.parametrize("figure", FIGURES, ids=[figure["id"] for figure in FIGURES])
def test_every_published_value_is_of_known_hardware(figure: dict[str, Any]) -> None:
    assert figure["source"] in PUBLISHED["sources"]
    if "board" not in figure:
        assert "switch" in figure
        return
    board, nic = CATALOGUE.boards[figure["board"]], CATALOGUE.nics[figure["nic"]]
    assert attached_bus(board, nic) is not None
    if "product" in figure:
        assert figure["product"] in nic.products


@pytest.mark.parametrize("figure", [f for f in FIGURES if f["mode"] == "one-way"], ids=lambda figure: figure["id"])
def test_no_published_value_is_above_the_physical_limit(figure: dict[str, Any]) -> None:
    nic = CATALOGUE.nics[figure["nic"]]
    bus = attached_bus(CATALOGUE.boards[figure["board"]], nic)
    assert bus is not None
    value = figure["goodput_mbps"] if "goodput_mbps" in figure else figure["goodput_mbps_at_least"]
    ports = 4 if nic.name == "i340" else 1
    bound = highest_limit(nic.speed_mbps * ports, nic.mtu_max, bus).goodput.bps
    for mbps in value if isinstance(value, list) else [value]:
        assert mbps * 1e6 <= bound * (1 + TOLERANCE)


def test_ids_of_published_values_are_unique() -> None:
    assert len({figure["id"] for figure in FIGURES}) == len(FIGURES) == 60


@pytest.mark.parametrize(
    ("board", "nic", "bus"),
    [
        ("pi4b", "ax88179", Bus.USB3),
        ("pi3b", "ax88179", Bus.USB2),
        ("cm4", "ax88179", Bus.USB2),
        ("cm4", "aqc107", Bus.PCIE2X1),
        ("pi5", "aqc113", Bus.PCIE3X1),
        ("pi5", "rtl8125", Bus.PCIE2X1),
        ("pi4b", "genet", Bus.SOC),
        ("pi5", "genet", None),
        ("pi4b", "rtl8125", None),
        ("zero2w", "rtl8153", Bus.USB2),
        ("pi4b", "cyw43455", Bus.SDIO),
        ("pib", "cyw43438", None),
        ("pi5", "i226", Bus.PCIE3X1),
    ],
)
def test_a_nic_runs_on_the_slower_of_its_own_bus_and_the_board_s(board: str, nic: str, bus: Bus | None) -> None:
    assert attached_bus(CATALOGUE.boards[board], CATALOGUE.nics[nic]) is bus


def test_the_catalogue_is_read_once() -> None:
    assert load() is CATALOGUE


def test_it_has_each_driver_of_the_catalogue() -> None:
    drivers = {nic.driver for nic in load().nics.values() if " " not in nic.driver}
    assert drivers - shipped_owners().keys() == set()
    for owner in shipped_owners().values():
        assert owner.file.startswith("drivers/net/")
        assert owner.to
        is_wireless = owner.file.startswith("drivers/net/wireless/")
        assert f"{'linux-wireless' if is_wireless else 'netdev'}@vger.kernel.org" in owner.lists
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
