"""A board on a desk, with ssh and nothing else: leased by its lock, rebooted over ssh, unplugged by a person."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import BuildError, LeaseError, SshError
from pytest_pinet.lab import board_locks
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.deploy.trial import PATH
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.lock_agent import BEAT_FILE
from pytest_pinet.lab.node import kinds, node_login, shutdown
from pytest_pinet.lab.node.node_session import NodeSession
from tests.support.card_board import CardBoard
from tests.support.card_desk import desk_file, lock_of, obedient_board
from tests.support.changed_node import change_node
from tests.support.labgrid_server import labgrid_server
from tests.support.waiting import wait_until


@pytest.fixture
def board(tmp_path: Path) -> Iterator[CardBoard]:
    with obedient_board(tmp_path / "board") as made:
        yield made


@pytest.fixture
def told() -> list[str]:
    """The sentences that the user sees during the run."""
    return []


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_login, "SSH_TIMEOUT_S", 1.0)
    monkeypatch.setattr(kinds, "STEP_S", 1.0)
    monkeypatch.setattr(kinds, "silence_of", lambda _: 1.0)
    monkeypatch.setattr(kinds, "HAND_S", 5.0)
    monkeypatch.setattr(shutdown, "GONE_TIMEOUT_S", 1.0)


@pytest.fixture
def lab(board: CardBoard, tmp_path: Path, told: list[str]) -> Iterator[LabAccess]:
    session = LabAccess(load(desk_file(tmp_path, board)), Identity.of_this_process(), 5.0, told.append)
    try:
        yield session
    finally:
        assert session.close() == []
        assert not lock_of(board).exists()


@pytest.fixture
def get(lab: LabAccess) -> Callable[..., NodeSession]:
    def get(reset: bool = False) -> NodeSession:
        (session,) = lab.pool.get([lab.lab.nodes["pi"]], 5.0, reset)
        return session

    return get


def test_it_is_leased_and_rebooted_over_ssh(board: CardBoard, get: Callable[..., NodeSession]) -> None:
    session = get()
    assert session.shell.run("echo $((6*7))").stdout == "42\n"
    assert str(Identity.of_this_process()) in lock_of(board).read_text()
    before = session.shell.run("cat /proc/sys/kernel/random/boot_id").stdout
    assert get() is session
    assert session.shell.run("cat /proc/sys/kernel/random/boot_id").stdout == before
    assert get(reset=True) is session
    assert session.shell.run("cat /proc/sys/kernel/random/boot_id").stdout not in (before, "")
    assert board.booted_by == ["config.txt", "config.txt"]
    assert str(Identity.of_this_process()) in lock_of(board).read_text()


def test_a_trial_starts_the_guard_and_leaves_nothing(
    board: CardBoard, get: Callable[..., NodeSession], tmp_path: Path
) -> None:
    before = board.files()
    session = get()
    (tmp_path / "build.yaml").write_text("name: same\ncmdline: same=1\n")
    build = load_build(str(tmp_path / "build.yaml"))
    session.deployment.check(build)
    assert "pi has neither power control nor a hardware watchdog" in session.deployment.risk(build)
    running = session.deployment.start(build)
    assert {"same=1", f"init={PATH}", "panic=10"} <= set(running.cmdline.split())
    assert session.shell.run(f"sh -n {PATH} && tail -n 1 {PATH}").stdout == 'exec /sbin/init "$@"\n'
    assert session.deployment.start(None).marker is None
    assert not session.deployment.take_back()
    assert session.shell.run(f"ls {PATH}").returncode != 0
    after = {name: data for name, data in board.files().items() if "pinet-lease" not in name}
    assert after == before


def test_a_person_unplugs_a_board_that_hangs(
    board: CardBoard, get: Callable[..., NodeSession], tmp_path: Path, told: list[str]
) -> None:
    session = get()
    # The board is up, so this is only how long the test waits for a boot that never comes.
    change_node(session, boot_timeout_s=2.0)
    (tmp_path / "build.yaml").write_text("name: hangs\ncmdline: hang=1\n")
    build = load_build(str(tmp_path / "build.yaml"))
    session.deployment.check(build)
    board.broken.add("hang=1")

    def plug_in(text: str) -> None:
        told.append(text)
        if "unplug" in text and not board.powered:
            board.power_cycle()

    session.announce = plug_in
    with pytest.raises(BuildError, match="hangs does not come up on pi, but the known-good build does") as caught:
        session.deployment.start(build)
    assert caught.value.kind == "no login"
    assert "no power control: unplug pi and plug it in again; waiting up to 7 s for it" in told
    assert not session.deployment.take_back()


def test_a_board_that_stays_silent_is_named(
    board: CardBoard,
    get: Callable[..., NodeSession],
    told: list[str],
    lab: LabAccess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = get()
    change_node(session, boot_timeout_s=1.0)
    monkeypatch.setattr(kinds, "HAND_S", 1.0)
    board.reset()
    lab.pool.distrust(session.node)
    with pytest.raises(SshError, match=r"pi does not answer over ssh: .*after the request to unplug it") as caught:
        get()
    assert caught.value.act == "connect a screen or a serial console to pi to see why"
    assert any(text.startswith("no power control: unplug pi and plug it in again; waiting up to") for text in told)
    board.power_cycle()


def start_trial(session: NodeSession, folder: Path) -> None:
    (folder / "build.yaml").write_text("name: same\ncmdline: same=1\n")
    build = load_build(str(folder / "build.yaml"))
    session.deployment.check(build)
    assert "same=1" in session.deployment.start(build).cmdline


def test_the_lock_is_removed_only_after_the_trial_has_ended(
    board: CardBoard, get: Callable[..., NodeSession], lab: LabAccess, tmp_path: Path
) -> None:
    start_trial(get(), tmp_path)
    boots = len(board.booted_by)
    lab.keep_only(())
    assert board.booted_by[boots:] == ["config.txt"]
    assert "same=1" not in board.shell.run("cat /proc/cmdline").stdout
    assert not lock_of(board).exists()


def test_the_guard_gets_a_board_that_does_not_reboot_at_its_release(
    board: CardBoard, get: Callable[..., NodeSession], lab: LabAccess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_locks, "BEAT_S", 0.2)
    start_trial(get(), tmp_path)
    reboot = board.folder / "bin/reboot"
    works = reboot.read_text()
    reboot.write_text("#!/bin/sh\n")
    with monkeypatch.context() as impatient:
        # Only here, because the reboot that works may take longer on a busy machine.
        impatient.setattr(kinds, "SHUTDOWN_S", 1.0)
        lab.keep_only(())
    (warning,) = lab.take_warnings()
    assert warning == "could not reboot pi: pi did not shut down within 1 s after a request to reboot"
    # The guard reboots the board that has a lock without a heartbeat.
    assert lock_of(board).exists()
    beat = board.shell.run(f"cat {BEAT_FILE}").stdout
    time.sleep(1.0)
    assert board.shell.run(f"cat {BEAT_FILE}").stdout == beat != ""
    reboot.write_text(works)
    # The next user needs no guard.
    assert "same=1" not in get().shell.run("cat /proc/cmdline").stdout
    (warning,) = lab.take_warnings()
    assert warning.endswith("that an interrupted run left on pi, and booted the known-good build")


@pytest.mark.slow
def test_a_board_at_a_coordinator_has_the_lock_during_a_trial(
    board: CardBoard, told: list[str], tmp_path: Path
) -> None:
    place = "pi1"
    with labgrid_server(tmp_path) as server:
        text = desk_file(tmp_path, board).read_text().replace("pi: {board", f"pi: {{place: {place}, board")
        file = tmp_path / "rack.yaml"
        file.write_text(f"options: {{coordinator_address: '{server.address}'}}\n{text}")
        session = LabAccess(load(file), Identity.of_this_process(), 5.0, told.append)
        try:
            (node,) = session.pool.get([session.lab.nodes["pi"]], 5.0)
            assert not lock_of(board).exists()
            start_trial(node, tmp_path)
            owner = lock_of(board).read_text()
            assert owner.startswith(f"{Identity.of_this_process()} ")
            wait_until("a heartbeat", lambda: node.shell.run(f"cat {BEAT_FILE}").stdout.strip() not in ("", "1"), 20)
            # Another process took the board, whatever the coordinator says.
            lock_of(board).write_text("otherhost/pinet-main-1-1-0123abcd-0 1700000000 bob\n")
            with pytest.raises(LeaseError, match="the lock on pi was lost during the test, and is held by bob"):
                node.shell.run("true")
            lock_of(board).write_text(owner)
            assert node.shell.run("echo ours").stdout == "ours\n"
            session.keep_only(())
            assert not lock_of(board).exists()
            assert "same=1" not in board.shell.run("cat /proc/cmdline").stdout
        finally:
            assert session.close() == []
