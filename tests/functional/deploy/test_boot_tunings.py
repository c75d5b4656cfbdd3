"""Boot tunings on a board over a real ssh: one trial boot each, and config.txt and cmdline.txt are never edited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import BuildError, LabError, UnsupportedError
from pytest_pinet.lab.deploy.deployment import Deployment
from pytest_pinet.lab.deploy.known_good import COPY
from pytest_pinet.lab.deploy.recovery import put_back
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.registry import read_tuning
from tests.support import build_files as made
from tests.support.card_board import CMDLINE, CONFIG, KNOWN_VERSION, CardBoard, card_board

FAST = read_tuning({"arm_freq": 2000, "over_voltage": 6, "kernel": "pci=pcie_bus_perf"})
BRICK = read_tuning({"arm_freq": 3000, "kernel": "brick"})


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CardBoard]:
    """Yield a board that does not come up with ``brick`` on its command line."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with card_board(tmp_path / "card") as found:
        found.booted_by.clear()
        found.power_cycles = 0
        found.broken.add("brick")
        yield found


@pytest.fixture
def _proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count boots: the trial boot of a copy of the known-good files was proved before."""
    monkeypatch.setattr(Deployment, "_prove_trial_boot", lambda *_: None)


def known_good_files(board: CardBoard) -> dict[str, tuple[str, int]]:
    """Return content and inode of both files. An edit in place or by a new file changes one of them."""
    paths = [board.firmware / "config.txt", board.firmware / "cmdline.txt"]
    return {path.name: (path.read_text(), path.stat().st_ino) for path in paths}


def words(board: CardBoard) -> list[str]:
    return board.shell.run("cat /proc/cmdline").stdout.split()


@pytest.mark.usefixtures("_proved")
def test_a_boot_tuning_is_one_trial_boot_of_the_known_good_files(board: CardBoard) -> None:
    before, kept = board.files(), known_good_files(board)
    deployment = Deployment(board)
    deployment.tune(FAST)
    assert [*CMDLINE.split(), "panic=10", "pci=pcie_bus_perf", f"pinet.build={COPY.key}"] == words(board)
    lines = (board.firmware / "tryboot.txt").read_text().splitlines()
    assert lines[1:3] == ["dtparam=audio=on", "[all]"]
    assert lines[-3:] == ["[all]", "arm_freq=2000", "over_voltage=6"]
    assert f"os_prefix=pytest-pinet/{COPY.key}/" in lines
    assert known_good_files(board) == kept
    deployment.tune(FAST)
    assert board.booted_by == [f"pytest-pinet/{COPY.key}/"]
    deployment.tune(Tuning())
    assert words(board) == CMDLINE.split()
    assert (board.booted_by[1:], board.power_cycles) == (["config.txt"], 0)
    assert not deployment.take_back()
    assert board.files() == before
    assert known_good_files(board) == kept


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_the_next_tuning_starts_from_the_known_good_files(board: CardBoard) -> None:
    deployment = Deployment(board)
    deployment.tune(FAST)
    deployment.tune(read_tuning({"arm_freq": 1800}))
    text = (board.firmware / "tryboot.txt").read_text()
    assert "arm_freq=1800" in text
    assert "2000" not in text
    assert "over_voltage" not in text
    assert words(board) == [*CMDLINE.split(), "panic=10", f"pinet.build={COPY.key}"]


@pytest.mark.usefixtures("_proved")
def test_a_board_that_does_not_come_up_with_the_tuning_is_healed_by_one_power_cycle(board: CardBoard) -> None:
    before, kept = board.files(), known_good_files(board)
    failed: dict[Tuning, LabError] = {}
    deployment = Deployment(board, failed)
    with pytest.raises(LabError) as caught:
        deployment.tune(BRICK)
    assert not isinstance(caught.value, BuildError)
    assert str(caught.value) == (
        "the known-good build with arm_freq=3000+kernel=brick does not come up on pi4b-1, but the known-good build "
        "does: pi4b-1 does not answer on its serial console\n"
        "  -> leave out arm_freq=3000+kernel=brick, or choose other values"
    )
    assert board.power_cycles == 1
    assert words(board) == CMDLINE.split()
    assert known_good_files(board) == kept
    assert not deployment.tuning
    # The board is not made to hang again, also by a later lease of this run.
    for later in (deployment, Deployment(board, failed)):
        with pytest.raises(LabError, match="arm_freq=3000"):
            later.tune(BRICK)
    assert board.power_cycles == 1
    deployment.tune(FAST)
    assert "pci=pcie_bus_perf" in words(board)
    assert deployment.take_back()
    board.power_cycle()
    assert board.files() == before


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_a_power_cut_at_any_time_boots_the_known_good_files(board: CardBoard) -> None:
    kept = known_good_files(board)
    deployment = Deployment(board)
    deployment.tune(FAST)
    board.power_cycle()
    assert words(board) == CMDLINE.split()
    assert known_good_files(board) == kept
    # After each power cycle, the session calls this function.
    deployment.after_boot()
    assert "pci=pcie_bus_perf" in words(board)
    assert [name == "config.txt" for name in board.booted_by] == [False, True, False]


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_the_next_login_removes_the_boot_tuning_of_a_killed_process(board: CardBoard) -> None:
    before = board.files()
    Deployment(board).tune(FAST)
    left = put_back(board.shell)
    assert left.sentences("pi4b-1") == [
        "removed the boot tuning or trial boot that an interrupted run left on pi4b-1, and booted the known-good build"
    ]
    assert board.files() == before
    board.power_cycle()
    assert words(board) == CMDLINE.split()
    assert put_back(board.shell).sentences("pi4b-1") == []


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_a_build_and_a_boot_tuning_are_in_one_tryboot_txt(board: CardBoard, tmp_path: Path) -> None:
    before = board.files()
    folder = tmp_path / "new"
    made.write(folder, {"Image": made.image(made.RELEASE)})
    (folder / "build.yaml").write_text(
        "name: new\nkernel: Image\ninitramfs: initrd\nconfig: ['[pi5]', 'dtparam=eee=off']\ncmdline: quiet\n"
    )
    made.write(folder, {"initrd": b"070701"})
    build = load_build(str(folder))
    deployment = Deployment(board)
    deployment.check(build)
    deployment.start(build)
    deployment.tune(FAST)
    assert deployment.running == build
    text = (board.firmware / "tryboot.txt").read_text()
    assert text.endswith("\n[pi5]\ndtparam=eee=off\n[all]\narm_freq=2000\nover_voltage=6\n")
    assert f"os_prefix=pytest-pinet/{build.key}/" in text
    assert words(board)[-3:] == ["quiet", "pci=pcie_bus_perf", f"pinet.build={build.key}"]
    assert board.shell.run("cat /proc/version").stdout.strip() == made.VERSION
    # The known-good build has the same tuning in its turn.
    assert deployment.start(None).version == KNOWN_VERSION
    assert words(board)[-2:] == ["pci=pcie_bus_perf", f"pinet.build={COPY.key}"]
    assert deployment.start(build).version == made.VERSION
    assert "pci=pcie_bus_perf" in words(board)
    assert deployment.take_back()
    board.power_cycle()
    assert board.files() == before


@pytest.mark.slow
@pytest.mark.usefixtures("_proved")
def test_a_tuning_with_which_the_board_hangs_does_not_accuse_the_build(board: CardBoard, tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text("name: settings\ncmdline: quiet\n")
    build = load_build(str(tmp_path / "build.yaml"))
    deployment = Deployment(board)
    deployment.check(build)
    deployment.start(build)
    with pytest.raises(LabError, match=r"the known-good build with arm_freq=3000\+kernel=brick does not come up"):
        deployment.tune(BRICK)
    assert board.power_cycles == 1
    assert deployment.start(build).marker == build.key


@pytest.mark.usefixtures("_proved")
def test_a_board_that_cannot_boot_for_a_trial_keeps_its_files_and_its_boot(board: CardBoard) -> None:
    before = board.files()
    (board.firmware / "tryboot.txt").write_text("# theirs\n")
    with pytest.raises(UnsupportedError, match=r"has a tryboot\.txt of another tool"):
        Deployment(board).tune(FAST)
    (board.firmware / "tryboot.txt").unlink()
    assert board.files() == before
    assert board.booted_by == []


@pytest.mark.slow
def test_a_board_whose_firmware_ignores_tryboot_gets_no_tuning(board: CardBoard) -> None:
    before = board.files()
    board.knows_tryboot = False
    deployment = Deployment(board)
    with pytest.raises(UnsupportedError, match=r"pi4b-1 cannot boot a build for a trial: a copy of its"):
        deployment.prove()
    with pytest.raises(UnsupportedError, match="cannot boot a build for a trial"):
        deployment.tune(FAST)
    deployment.take_back()
    assert board.files() == before


def test_the_proof_says_how_a_trial_boot_is_requested(board: CardBoard) -> None:
    before = board.files()
    deployment = Deployment(board)
    assert deployment.prove() == "vcmailbox"
    assert deployment.active, "its journal is still there"
    assert board.booted_by == [f"pytest-pinet/{COPY.key}/", "config.txt"]
    assert not deployment.take_back()
    assert board.files() == before
    assert (board.firmware / "config.txt").read_text() == CONFIG
