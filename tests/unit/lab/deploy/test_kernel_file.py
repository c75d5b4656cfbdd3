"""The known-good kernel's file is fetched once, and its texts say which options its built-in code has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.builds.cache import folder as cache_folder
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.deploy.board import Refused
from pytest_pinet.lab.deploy.kernel_and_tree import check_built_in_options, read_kernel
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import Build
from tests.support import build_files as made

IMAGE = made.image() + b"\0e1000e.debug\0e1000e.WakeOnLan\0"
WRONG = Build("wrong", options=(("e1000e", "NoSuchParameter", "1"),))


class Board(SshShell):
    """A board with its modules below ``root``. By its console, it gives no file. ``fetched`` counts its files."""

    def __init__(self, root: Path) -> None:
        super().__init__("pi", ["/bin/sh", "-c"])
        self.root = root
        self.by_console = False
        self.fetched = 0

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return super().run(command.replace("/lib/modules/", f"{self.root}/modules/"), timeout_s)

    def fetch(self, command: str, timeout_s: float) -> bytes:
        if self.by_console:
            raise LabError("pi is reached by its serial console, which is too slow for a file of 9.0 MB", "")
        self.fetched += 1
        return super().fetch(command, timeout_s)

    def check(self, build: Build = WRONG) -> None:
        check_built_in_options(build, self, self, f"{self.root}/kernel8.img", made.RELEASE)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "kernel8.img").write_bytes(IMAGE)
    return Board(tmp_path)


def modules(board: Board, release: str, text: str) -> None:
    made.write(board.root / "modules" / release, {"modules.dep": text.encode()})


def test_the_options_are_checked_without_a_second_transfer(board: Board) -> None:
    read_kernel(board, str(board.root), "kernel8.img")
    board.by_console = True
    with pytest.raises(ConfigError, match=r"e1000e has no parameter 'NoSuchParameter'; accepted: WakeOnLan, debug$"):
        board.check()
    assert board.fetched == 1


def test_a_board_whose_file_comes_only_over_a_console_is_not_refused(board: Board) -> None:
    read_kernel(board, str(board.root), "kernel8.img")
    # An earlier release kept only the identity.
    for path in cache_folder().glob("*/built-in-*.json"):
        path.unlink()
    board.by_console = True
    assert read_kernel(board, str(board.root), "kernel8.img").release == made.RELEASE
    board.check()
    board.by_console = False
    with pytest.raises(ConfigError):
        board.check()


def test_an_unknown_kernel_over_a_console_is_refused(board: Board) -> None:
    board.by_console = True
    with pytest.raises(
        Refused, match=r"^this machine has not yet read .*/kernel8\.img, the known-good kernel of pi: pi is"
    ):
        read_kernel(board, str(board.root), "kernel8.img")


@pytest.mark.parametrize("line", ["kernel/drivers/net/e1000e.ko.xz:", "e1000e.ko:", "updates/e1000e.ko: mii.ko"])
def test_a_module_that_the_known_good_kernel_can_load_is_not_judged_by_its_image(board: Board, line: str) -> None:
    modules(board, made.RELEASE, f"kernel/lib/other.ko:\n{line}\n")
    board.check()


@pytest.mark.parametrize(
    ("release", "line"), [("6.12.25-another", "kernel/e1000e.ko:"), (made.RELEASE, "kernel/not-e1000e.ko: e1000e.ko")]
)
def test_a_module_of_another_kernel_or_name_does_not_count(board: Board, release: str, line: str) -> None:
    modules(board, release, f"{line}\n")
    with pytest.raises(ConfigError):
        board.check()
