"""The lab file says which exact boards exist."""

from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.exact.board import VIRT, VIRT_SLOT
from pytest_pinet.exact.measure import exact_boards
from tests.soak import test_exact_rebuilds
from tests.support.console_blocks import ROOT
from tests.support.rebuilds import MODULES

TEXT = (ROOT / "lab" / "exact.yaml").read_text()


def lab(folder: Path, *changes: tuple[str, str]) -> str:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.yaml").write_text(text)
    return str(folder / "mine.yaml")


def test_the_packaged_lab_has_the_default_boards() -> None:
    found = exact_boards()
    assert {name: (one.machine, one.nic.driver) for name, one in found.items()} == {
        "e1000e": (VIRT, "e1000e"),
        "igb": (VIRT, "igb"),
        "virtio-net": (VIRT, "virtio_net"),
        "macb": (VIRT, "macb"),
        "e1000e-slot": (VIRT_SLOT, "e1000e"),
        "virtio-net-slot": (VIRT_SLOT, "virtio_net"),
        "genet": (VIRT, "bcmgenet"),
        "r8152": (VIRT, "r8152"),
        "r8156": (VIRT, "r8152"),
        "ax88179": (VIRT, "ax88179_178a"),
        "lan78xx": (VIRT, "lan78xx"),
        "smsc95xx": (VIRT, "smsc95xx"),
        "cdc": (VIRT, "cdc_ether"),
        "r8169": (VIRT, "r8169"),
        "igc": (VIRT, "igc"),
        "aqc": (VIRT, "atlantic"),
    }


def test_each_driver_takes_part_in_the_statements_of_soak() -> None:
    assert MODULES.keys() == {name for name, board in exact_boards().items() if not board.machine.slot}
    unchanged, longer = (
        mark.kwargs["runs"]
        for test in (
            test_exact_rebuilds.test_a_driver_that_was_only_built_again_is_not_slower,
            test_exact_rebuilds.test_four_more_instructions_are_listed_first,
        )
        for mark in vars(test)["pytestmark"]
    )
    assert (unchanged // len(MODULES) >= 14, longer // len(MODULES) >= 4) == (True, True)


def test_a_lab_file_can_have_other_boards(tmp_path: Path) -> None:
    found = exact_boards(lab(tmp_path, ("    virtio-net:\n      board", "    guest:\n      board")))
    assert [*found][:4] == ["e1000e", "igb", "guest", "macb"]
    assert found["guest"].name == "guest"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "driver: igb",
            "driver: e1000",
            "node 'igb': no exact board is virt with NIC igb and driver e1000; accepted: virt with e1000e, igb, ",
        ),
        (
            "        onboard: {port: qemu/p4}",
            "        onboard: {port: qemu/p4}\n    more:\n      board: virt\n      interfaces:\n"
            "        nic: {nic: igb, port: qemu/p30}",
            "node 'e1000e' is an exact board (clock: exact), but node 'more' is not; use two lab files",
        ),
        (
            "nic: {nic: igb, port: qemu/p2}",
            "nic: {nic: igb, port: qemu/p2}\n        more: {nic: igb, port: qemu/p30}",
            "node 'igb' is an exact board (clock: exact); expected one interface, whose NIC QEMU",
        ),
        ("figures: emulated", "launcher: virtual", "no launcher starts exact boards such as 'e1000e' (clock: exact);"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        exact_boards(lab(tmp_path, ("p1-p20", "p1-p30"), (old, new)))
    assert f": {message}" in str(raised.value)
    assert raised.value.where is not None
    assert raised.value.where.line is not None


def test_a_machine_of_exact_boards_has_an_exact_clock(tmp_path: Path) -> None:
    file = lab(tmp_path, ("clock: exact", "clock: virtual"), ("figures: emulated", "launcher: virtual"))
    with pytest.raises(ConfigError, match="node 'e1000e-slot': machine virt-slot exists only as an exact board"):
        exact_boards(file)


def test_a_board_can_have_two_processors(tmp_path: Path) -> None:
    two = ("cores: 1, buses: [pcie3x1, usb2, usb3]", "cores: 2, buses: [pcie3x1, usb2, usb3]")
    found = exact_boards(lab(tmp_path, two))["e1000e"]
    assert found.machine.processors == 2
    with pytest.raises(ConfigError, match=r"board 'virt-gem' of node 'macb' has 3 cores; an exact board has 1 or 2"):
        exact_boards(lab(tmp_path, ("cores: 1, buses: [], onboard: gem", "cores: 3, buses: [], onboard: gem")))


def test_a_lab_without_exact_boards_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"^emulated has no exact board, which is a node with 'clock: exact'; without"
    ):
        exact_boards("emulated")
