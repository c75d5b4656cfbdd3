"""The commands on a board run with the shell and the tools of busybox, too, of which some boards lack a few."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.evidence.build import read_running
from pytest_pinet.lab.deploy.card import read_boot_report, read_card
from pytest_pinet.lab.deploy.deployment import Deployment
from pytest_pinet.lab.deploy.recovery import Leftover, put_back
from pytest_pinet.lab.deploy.root_files import read_boot_needs
from pytest_pinet.tuning.journal import replay
from tests.support import build_files as made
from tests.support.card_board import KNOWN_RELEASE, KNOWN_VERSION, CardBoard, card_board

pytestmark = pytest.mark.usefixtures("_cache")
# OpenWrt has no od. A busybox of before 1.37 has no -v in head if it is made small.
FEW = ("od", "timeout", "blkid", "mountpoint", "flock")
KNOWN_VERMAGIC = made.VERMAGIC.replace(made.RELEASE, KNOWN_RELEASE)
KNOWN = made.module("r8169", KNOWN_VERMAGIC, srcversion="KNOWN")


@pytest.fixture
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(params=[(), FEW], ids=["busybox", "small busybox"])
def board(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CardBoard]:
    with card_board(tmp_path / "card", modules={"r8169": KNOWN}, without=request.param) as found:
        yield found


def test_the_shell_is_that_of_busybox(board: CardBoard) -> None:
    assert board.shell.run("readlink -f $(command -v sh)").stdout.rstrip().endswith("/busybox")
    assert board.shell.run("sed --version 2>&1").stdout.startswith("This is not GNU sed")


def test_what_runs_is_read(board: CardBoard) -> None:
    report = read_boot_report(board.shell)
    assert (report.version, report.bits, report.mailbox) == (KNOWN_VERSION, 64, True)
    assert report.build_id == bytes(20).hex()
    running = read_running(board.shell)
    assert (running.version, running.build_id, running.release) == (KNOWN_VERSION, bytes(20).hex(), KNOWN_RELEASE)
    assert running.modules["r8169"].srcversion == "KNOWN"
    card = read_card(board.shell, ("/boot/firmware",))
    assert card.texts.keys() == {"config.txt", "cmdline.txt"}
    assert card.size("initramfs8") == len(b"known-good initramfs")
    assert card.free > 0
    assert card.writable
    assert "r8169" in read_boot_needs(board.shell).loaded


@pytest.mark.slow
def test_a_build_is_deployed_booted_and_removed(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    made.write(tmp_path / "new", {"Image": made.image(), **made.tree(), "firmware/rtl_nic/a.fw": b"firmware"})
    build = load_build(str(tmp_path / "new"))
    deployment = Deployment(board)
    deployment.check(build)
    assert deployment.start(build).version == made.VERSION
    assert deployment.start(None).version == KNOWN_VERSION
    deployment.start(build)
    deployment.take_back()
    board.power_cycle()
    assert board.files() == before


@pytest.mark.slow
def test_what_a_killed_run_left_is_removed(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    (tmp_path / "build.yaml").write_text("cmdline: quiet\n")
    build = load_build(str(tmp_path / "build.yaml"))
    Deployment(board).start(build)
    assert put_back(board.shell) == Leftover(build.key, files=True)
    board.power_cycle()
    assert board.files() == before


def test_a_module_and_an_option_are_changed_and_restored(board: CardBoard, tmp_path: Path) -> None:
    (tmp_path / "r8169.ko").write_bytes(made.module("r8169", KNOWN_VERMAGIC, srcversion="NEW"))
    (tmp_path / "build.yaml").write_text("modules: r8169.ko\noptions: {r8169: {debug: 1}}\n")
    build = load_build(str(tmp_path / "build.yaml"))
    deployment = Deployment(board)
    deployment.check(build)
    running = deployment.start(build)
    assert (running.modules["r8169"].srcversion, running.parameters) == ("NEW", {"r8169.debug": "1"})
    assert replay(board.shell).done == ("module r8169 of pi4b-1",)
    assert read_running(board.shell).modules["r8169"].srcversion == "KNOWN"
