"""Leases by a lock file on each board: real sshds, several processes, dead holders and reboots."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from pytest_pinet.errors import LeaseError, SshError
from pytest_pinet.lab import board_locks, lease
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.lease import Leases
from pytest_pinet.lab.lock_agent import Agent
from tests.support.lock_board import LockBoard, await_holding, elsewhere, holder, lock_boards, locks
from tests.support.waiting import wait_until

# The heartbeat of the other processes is shorter (0.2 s).
BEAT_S, DEAD_S = 1.0, 3.0
STILL_HELD_S = 1.4 * DEAD_S


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, LockBoard]]:
    with lock_boards(tmp_path_factory.mktemp("boards"), "pi1", "pi2") as made:
        yield made


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_locks, "BEAT_S", BEAT_S)
    monkeypatch.setattr(board_locks, "DEAD_S", DEAD_S)


@pytest.fixture(autouse=True)
def _no_lock_left(boards: dict[str, LockBoard]) -> Iterator[None]:
    yield
    left = [name for name, board in boards.items() if board.lock.exists()]
    for name in left:
        boards[name].lock.unlink()
    assert left == []


@pytest.fixture
def hold(boards: dict[str, LockBoard], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start processes that hold boards. The processes that still live at the end of the test are killed."""
    with ExitStack() as stack:

        def start(place: str, host: str = "here") -> subprocess.Popen[str]:
            process = stack.enter_context(holder(boards, tmp_path / "log", hold=(place,), host=host))
            stack.callback(process.kill)
            await_holding(process)
            return process

        yield start


@pytest.fixture
def other(boards: dict[str, LockBoard]) -> Iterator[Leases]:
    """Leases of this process as if it ran on another machine."""
    keeper = locks(boards, elsewhere(Identity.of_this_process()))
    made = Leases(keeper, lambda _: None, lambda _: None)
    yield made
    made.release(made.held)
    keeper.close()


@pytest.fixture
def own(boards: dict[str, LockBoard]) -> Iterator[Leases]:
    keeper = locks(boards)
    made = Leases(keeper, lambda _: None, lambda _: None)
    yield made
    made.release(made.held)
    keeper.close()


def test_a_lease_is_a_file_on_the_board_that_names_its_owner(boards: dict[str, LockBoard], own: Leases) -> None:
    own.acquire(["pi1"], 5)
    identity, since, user = boards["pi1"].lock.read_text().split()
    assert identity == str(Identity.of_this_process())
    assert abs(int(since) - time.time()) < 60
    assert user
    assert not boards["pi2"].lock.exists()
    own.check(["pi1"])
    own.release(["pi1"])
    assert not boards["pi1"].lock.exists()


def test_processes_never_hold_a_board_at_the_same_time(boards: dict[str, LockBoard], tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ExitStack() as stack:
        hosts = ("here", "one", "two")
        processes = [stack.enter_context(holder(boards, log, rounds=10, host=host)) for host in hosts]
        assert [process.wait(60) for process in processes] == [0, 0, 0]
    lines = log.read_text().splitlines()
    assert len(lines) >= 2 * 30
    for name in boards:
        assert set([line for line in lines if line.endswith(name)][0::2]) == {f"begin {name}"}
    assert not any(board.lock.exists() for board in boards.values())


def test_a_wait_names_the_user_and_the_way_to_remove_the_lock(
    boards: dict[str, LockBoard], hold: Callable[..., subprocess.Popen[str]]
) -> None:
    process = hold("pi2", "otherhost")
    waits: list[str] = []
    keeper = locks(boards)
    other = Leases(keeper, lambda _: None, waits.append)
    held = r"place pi2(:|,) held by (\S+) \(otherhost/pinet-w1-\d+-\d+-0123abcd-0\) since \d\d:\d\d:\d\d"
    with pytest.raises(LeaseError) as caught:
        other.acquire(["pi1", "pi2"], 3.0)
    assert re.match(rf"waited \d s for {held}$", caught.value.message)
    login = boards["pi2"].login
    assert re.fullmatch(
        r"ask \S+ on otherhost, increase --pinet-acquire-timeout, or: "
        rf"ssh {login} sudo rm /var/lib/pinet-lease/lock",
        caught.value.act,
    )
    assert re.match(rf"waiting for {held} \(waited \d s of 3 s\)$", waits[0])
    assert other.held == set()
    assert not boards["pi1"].lock.exists()
    process.kill()
    process.wait()
    keeper.close()
    boards["pi2"].lock.unlink()


def test_the_lock_of_a_dead_process_of_this_host_is_taken_at_once(
    boards: dict[str, LockBoard],
    own: Leases,
    hold: Callable[..., subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(board_locks, "DEAD_S", 3600.0)
    process = hold("pi1")
    with pytest.raises(LeaseError, match="held by"):
        own.acquire(["pi1"], 0.5)
    process.kill()
    process.wait()
    assert boards["pi1"].lock.exists()
    own.acquire(["pi1"], 5)


def test_only_a_heart_that_stopped_frees_the_lock_of_another_host(
    own: Leases, hold: Callable[..., subprocess.Popen[str]]
) -> None:
    process = hold("pi1", "otherhost")
    with pytest.raises(LeaseError, match="held by"):
        own.acquire(["pi1"], STILL_HELD_S)
    process.kill()
    process.wait()
    own.acquire(["pi1"], 10 * DEAD_S)


def test_a_lease_survives_the_reboot_of_its_board(boards: dict[str, LockBoard], own: Leases, other: Leases) -> None:
    board = boards["pi1"]
    own.acquire(["pi1"], 5)
    with pytest.raises(LeaseError, match="held by"):
        other.acquire(["pi1"], 0.5)
    board.off()
    # A board that does not answer has not given its lock away.
    own.check(["pi1"])
    with pytest.raises(LeaseError, match=r"held by .* since"):
        other.acquire(["pi1"], STILL_HELD_S)
    board.on()
    with pytest.raises(LeaseError, match="held by"):
        other.acquire(["pi1"], STILL_HELD_S)
    own.check(["pi1"])


def test_a_lock_that_a_crash_of_the_board_lost_is_written_again(boards: dict[str, LockBoard], own: Leases) -> None:
    own.acquire(["pi1"], 5)
    boards["pi1"].lock.write_text("")

    def is_written() -> bool:
        # The agent removes the empty file before it writes the lock.
        with suppress(FileNotFoundError):
            return boards["pi1"].lock.read_text() != ""
        return False

    wait_until("the lock", is_written, 10)
    own.check(["pi1"])


def test_a_lost_lock_is_noticed(boards: dict[str, LockBoard], own: Leases) -> None:
    own.acquire(["pi1"], 5)
    thief = f"otherhost/pinet-main-1-1-0123abcd-0 {time.time():.0f} bob"
    boards["pi1"].lock.write_text(f"{thief}\n")
    with pytest.raises(LeaseError, match="place pi1 was lost during the test, and is held by otherhost/pinet-main-1-1"):
        own.check(["pi1"])
    assert own.lost(["pi1"]) == {"pi1"}
    own.release(["pi1"])
    assert boards["pi1"].lock.read_text() == f"{thief}\n"
    boards["pi1"].lock.unlink()


def test_a_silent_board_ends_the_wait_with_the_words_of_ssh(
    boards: dict[str, LockBoard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "SILENT_S", 0.5)
    absent = LockBoard(tmp_path / "absent")
    keeper = locks({"pi3": absent})
    waits: list[str] = []
    with pytest.raises(SshError, match=r"pi3 does not answer over ssh \(-p \d+ root@127.0.0.1\): .*refused") as caught:
        Leases(keeper, lambda _: None, waits.append).acquire(["pi3"], 60)
    assert f"this works: ssh {absent.login}" in caught.value.act
    assert waits[0].startswith("waiting for place pi3: pi3 does not answer over ssh")
    keeper.close()


def test_a_refused_login_ends_at_once(boards: dict[str, LockBoard]) -> None:
    board = boards["pi1"]
    argv = [word if word != str(board.folder / "key") else "/dev/null" for word in board.argv("IdentitiesOnly=yes")]
    with pytest.raises(LeaseError, match=r"pi1 refuses the login .*Permission denied") as caught:
        Agent("pi1", argv, board.login).request("look")
    assert caught.value.act == f"ssh-copy-id {board.login}"


def test_a_user_who_cannot_become_root_gets_the_cure() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    agent = Agent("pi1", ["setpriv", "--reuid=65534", "--clear-groups", "/bin/sh", "-c"], "nobody@pi1")
    with pytest.raises(LeaseError, match=r"pi1 cannot be leased: .*sudo") as caught:
        agent.request("look")
    assert "on pi1: sudo raspi-config nonint do_sudo_pass 1" in caught.value.act
