"""Boot files outside the board: on a TFTP server through labgrid's provider, and on a card behind an SD mux."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from labgrid import Target
from labgrid.driver import TFTPProviderDriver
from labgrid.resource import TFTPProvider

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import UnsupportedError
from pytest_pinet.lab.deploy.board import PartitionAccess, Tftp
from pytest_pinet.lab.deploy.deployment import Deployment
from pytest_pinet.lab.deploy.recovery import Leftover, put_back
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import Build
from tests.support import build_files as made
from tests.support.card_board import KNOWN_VERSION, CardBoard, card_board


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made.write(tmp_path / "new", {"Image": made.image(), "initramfs8": b"initramfs", **made.tree()})
    return load_build(str(tmp_path / "new"))


def provider(folder: Path) -> Any:
    """Return labgrid's own driver, for a server on this machine."""
    target = Target("pi4b-1")
    TFTPProvider(target, None, internal=f"{folder}/", external="pi4b-1/")
    driver = TFTPProviderDriver(target, None)
    target.activate(driver)
    return driver


def test_a_board_that_boots_from_the_network(tmp_path: Path, build: Build) -> None:
    with card_board(tmp_path / "card", netboot=True) as board:
        board.drivers["TFTPProviderDriver"] = provider(board.firmware)
        before = board.files()
        deployment = Deployment(board)
        deployment.check(build)
        assert deployment.start(build).version == made.VERSION
        ours = board.firmware / "pytest-pinet" / build.key
        assert (ours / "initrd.img").read_bytes() == b"initramfs"
        assert (board.folder / "modules" / made.RELEASE / "modules.dep").is_file()
        assert not list((board.folder / "boot").rglob("*.img")), "it went to a boot partition that nothing boots from"
        assert deployment.start(None).version == KNOWN_VERSION
        deployment.take_back()
        assert board.files() == before


def test_an_initramfs_cannot_be_made_on_a_tftp_server(tmp_path: Path, build: Build) -> None:
    (tmp_path / "new" / "initramfs8").unlink()
    with card_board(tmp_path / "card", netboot=True) as board:
        board.drivers["TFTPProviderDriver"] = provider(board.firmware)
        with pytest.raises(UnsupportedError) as caught:
            Deployment(board).check(load_build(str(tmp_path / "new")))
    assert str(caught.value) == (
        "pi4b-1 boots with an initramfs, which pinet cannot make on a TFTP server: add one to build new"
    )


class Mux:
    """An SD mux with its card. Replaces the hardware and labgrid's agent that mounts the card."""

    def __init__(self, board: CardBoard) -> None:
        self.board = board
        self.modes: list[str] = []
        self.unmounted: list[bool] = []
        self.storage = SimpleNamespace(command_prefix=[])
        self.proxy = SimpleNamespace(mount=self.mount, unmount=lambda _, lazy: self.unmounted.append(lazy))

    def set_mode(self, mode: str) -> None:
        assert not self.board.powered, "the card was taken from a board that runs"
        self.modes.append(mode)

    def mount(self, device: str, retries: int) -> str:
        assert device == "/dev/sdx1"
        return str(self.board.firmware)

    def _wait_for_medium(self, partition: int) -> None:
        assert partition == 1

    def _start_wrapper(self) -> None:
        pass

    def _get_devpath(self, partition: int) -> str:
        return f"/dev/sdx{partition}"


def test_a_card_is_written_while_the_board_is_off(tmp_path: Path, build: Build) -> None:
    with card_board(tmp_path / "card") as board:
        mux = Mux(board)
        board.drivers |= {"USBSDMuxDriver": mux, "USBStorageDriver": mux}
        before = board.files()
        deployment = Deployment(board)
        deployment.check(build)
        assert deployment.start(build).version == made.VERSION
        # Once for the copy of the known-good files, once for the build.
        assert (mux.modes, mux.unmounted) == (["host", "dut"] * 2, [False] * 2)
        # Meanwhile the known-good build runs, and receives the files for its own file system.
        assert board.booted_by[-2:] == ["config.txt", f"pytest-pinet/{build.key}/"]
        deployment.take_back()
        board.power_cycle()
        assert board.files() == before


def test_the_next_login_removes_what_a_killed_run_left_on_the_tftp_server(tmp_path: Path, build: Build) -> None:
    with card_board(tmp_path / "card", netboot=True) as board:
        board.drivers["TFTPProviderDriver"] = provider(board.firmware)
        before = board.files()
        Deployment(board).start(build)
        assert (board.firmware / "tryboot.txt").exists()
        left = put_back(board.shell, Tftp(board).access())
        assert left == Leftover(build.key, files=True)
        board.power_cycle()
        assert board.files() == before
        assert put_back(board.shell, Tftp(board).access()) == Leftover()


def test_boot_files_that_are_left_on_a_tftp_server_without_an_answer_are_named(tmp_path: Path, build: Build) -> None:
    with card_board(tmp_path / "card", netboot=True) as board:
        # The exit status of ssh without a connection.
        gone = PartitionAccess(SshShell("the TFTP server of pi4b-1", ["sh", "-c", "exit 255"]), ("/srv/tftp/x",))
        left = put_back(board.shell, gone)
    assert left.sentences("pi4b-1")[-1] == (
        "could not remove the boot files on the TFTP server of pi4b-1 (the ssh connection to the TFTP server of pi4b-1 "
        "was lost) from pi4b-1"
    )
