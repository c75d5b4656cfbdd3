"""The lock file of a board, as real shells write it in a folder of this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import LeaseError, SshError
from pytest_pinet.lab import lock_agent as agent
from pytest_pinet.lab.board_locks import BoardLocks
from pytest_pinet.lab.deploy.board import LOCK, locked
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.lock_agent import FOLDER, RUN, Agent, LockState, fence, refusal

A, B, C = (f"{name}/pinet-main-1-1-0123abcd-0 1700000000 {name}" for name in ("ann", "bob", "cid"))
NOBODY = LockState("", None)
Start = Callable[..., Agent]


@pytest.fixture(params=[("sh",), ("busybox", "sh")], ids=["sh", "busybox"])
def start(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start agents of one board. ``script`` changes their program."""
    if shutil.which(request.param[0]) is None:
        pytest.skip(f"{request.param[0]} is not installed")
    text = agent.AGENT.replace(FOLDER, f"{tmp_path}/var").replace("/run/pinet-lease", f"{tmp_path}/run")
    monkeypatch.setattr(agent, "as_root", lambda command: command)
    made: list[Agent] = []

    def started(script: Callable[[str], str] = str) -> Agent:
        monkeypatch.setattr(agent, "AGENT", script(text))
        made.append(Agent("pi1", [*request.param, "-c"], "pi@pi1"))
        made[-1].request("look")
        return made[-1]

    yield started
    for one in made:
        one.close()


def read_only(text: str) -> str:
    """Return the program as it runs if it cannot write to the card. Root may write to any folder of a test."""
    assert "[ -w $p ]" in text
    return text.replace("[ -w $p ]", "false").replace("rm -f $p/lock $r/lock", "rm -f $r/lock && false")


def test_a_lock_has_one_owner(start: Start, tmp_path: Path) -> None:
    ann, bob = start(), start()
    assert ann.request("take", 1, A) == LockState(A, 1)
    assert bob.request("take", 1, B) == LockState(A, 1)
    assert bob.request("drop", owner=B) == LockState(A, 1)
    assert ann.request("drop", owner=A) == NOBODY
    assert bob.request("take", 1, B) == LockState(B, 1)
    assert [path.name for path in (tmp_path / "var").iterdir()] == ["lock"]


def test_a_card_that_becomes_read_only_gives_its_lock_to_no_other_process(start: Start, tmp_path: Path) -> None:
    ann = start()
    ann.request("take", 1, A)
    bob = start(read_only)
    assert bob.request("take", 1, B) == LockState(A, 1)
    # The file stays, and its owner can be removed all the same.
    assert bob.request("evict", 1, A) == NOBODY
    assert bob.request("take", 1, B) == LockState(B, 1)
    assert (tmp_path / "var/lock").exists()
    assert ann.request("take", 2, A) == LockState(B, 1)


def test_an_owner_whose_heartbeat_came_back_is_not_evicted(start: Start) -> None:
    ann, bob = start(), start()
    ann.request("take", 7, A)
    assert bob.request("evict", 6, A) == LockState(A, 7)
    assert bob.request("evict", -1, A) == LockState(A, 7)
    assert bob.request("evict", 7, A) == NOBODY


def test_two_waiters_that_evict_one_owner_do_not_evict_each_other(start: Start) -> None:
    ann, bob, cid = start(), start(), start()
    ann.request("take", 7, A)
    bob.request("evict", 7, A)
    bob.request("take", 1, B)
    assert cid.request("evict", 7, A) == LockState(B, 1)
    assert cid.request("take", 1, C) == LockState(B, 1)


@pytest.mark.parametrize(
    ("card", "reboot"),
    [
        pytest.param(str, False, id="card"),
        pytest.param(str, True, id="card-and-reboot"),
        # Nothing on it survives a reboot.
        pytest.param(read_only, False, id="read-only-card"),
    ],
)
def test_an_evicted_owner_does_not_take_the_board_again(
    start: Start, tmp_path: Path, card: Callable[[str], str], reboot: bool
) -> None:
    """The machine of ann was suspended. Others have used the board meanwhile, so her results are worth nothing."""
    ann, bob = start(card), start(card)
    ann.request("take", 7, A)
    assert bob.request("evict", 7, A) == NOBODY
    bob.request("take", 1, B)
    assert bob.request("evict", 1, B) == NOBODY
    bob.request("take", 1, C)
    bob.request("drop", owner=C)
    if reboot:
        for one in (ann, bob):
            one.close()
        shutil.rmtree(tmp_path / "run")
        assert [path.name for path in (tmp_path / "var").iterdir()] == ["gone"]
    assert ann.request("take", 8, A) == NOBODY


def test_a_mutex_that_is_never_free_gives_the_lock_to_no_process(start: Start) -> None:
    bob = start(lambda text: text.replace("flock -n 9", "false").replace("[ $n -lt 50 ]", "[ $n -lt 2 ]"))
    if shutil.which("flock") is None:
        pytest.skip("flock is not installed")
    assert bob.request("take", 1, B) == NOBODY


def test_an_interruption_while_a_board_is_leased_leaves_no_lock(start: Start, tmp_path: Path) -> None:
    class Interrupted(Agent):
        def request(self, verb: str, count: int = 0, owner: str = "") -> LockState:
            state = super().request(verb, count, owner)
            if verb == "take":
                raise KeyboardInterrupt
            return state

    one = start()
    identity = Identity.of_this_process()
    for end in (lambda keeper: keeper.release("pi1", identity), BoardLocks.close):
        keeper = BoardLocks(identity, {"pi1": Interrupted("pi1", one._argv, one.login)})
        with pytest.raises(KeyboardInterrupt):
            keeper.acquire("pi1")
        assert (tmp_path / "var/lock").exists()
        end(keeper)
        assert not (tmp_path / "var/lock").exists()
        keeper.close()


def test_a_lock_that_was_left_to_the_guard_stays_if_the_next_request_gets_no_answer(
    start: Start, tmp_path: Path
) -> None:
    class Silent(Agent):
        """Answers no request for the lock."""

        def request(self, verb: str, count: int = 0, owner: str = "") -> LockState:
            if verb == "take":
                raise SshError("pi1 does not answer over ssh")
            return super().request(verb, count, owner)

    one = start()
    keeper = BoardLocks(Identity.of_this_process(), {"pi1": one})
    assert keeper.acquire("pi1")
    keeper.leave_to_guard("pi1")
    lock = (tmp_path / "var/lock").read_text()
    keeper._agents["pi1"] = Silent("pi1", one._argv, one.login)
    assert not keeper.acquire("pi1")
    keeper.release("pi1", keeper.identity)
    # The guard reboots only a board with a lock.
    keeper.close()
    assert (tmp_path / "var/lock").read_text() == lock


def test_a_full_card_is_named(start: Start) -> None:
    one = start(lambda text: text.replace("printf '%s\\n' \"$words\"", "false"))
    keeper = BoardLocks(Identity.of_this_process(), {"pi1": one})
    with pytest.raises(LeaseError, match="its lock file cannot be written"):
        keeper.acquire("pi1")
    keeper.close()


def test_a_login_that_prints_for_ever_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "CONNECT_S", 0.5)
    with pytest.raises(SshError, match="pi1 does not answer over ssh"):
        Agent("pi1", ["sh", "-c", "while :; do echo news; sleep 0.1; done", "sh"], "pi@pi1").request("look")


ANN, BOB = (f"{name}/pinet-main-1-1-0123abcd-0 1700000000 {name}" for name in ("ann", "bob"))


@pytest.mark.parametrize("shell", [("sh",), ("busybox", "sh")], ids=["sh", "busybox"])
@pytest.mark.parametrize(
    ("files", "goes_on"),
    [
        pytest.param({"var/lock": ANN}, True, id="ours"),
        pytest.param({"run/lock": ANN}, True, id="ours-on-a-read-only-card"),
        pytest.param({}, True, id="lost-by-a-crash-of-the-board"),
        pytest.param({"var/lock": ""}, True, id="empty-after-a-crash-of-the-board"),
        pytest.param({"var/lock": BOB}, False, id="of-another"),
        pytest.param({"var/lock": ANN, "run/gone": ANN}, False, id="removed-by-others"),
        pytest.param({"run/gone": ANN}, False, id="removed-and-given-back"),
        pytest.param({"var/lock": ANN, "run/lock": BOB, "run/gone": ANN}, False, id="of-another-on-a-read-only-card"),
    ],
)
def test_a_command_goes_on_only_for_the_owner(
    tmp_path: Path, shell: tuple[str, ...], files: dict[str, str], goes_on: bool
) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    for folder in ("var", "run"):
        (tmp_path / folder).mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n" if text else "")
    own = fence(ANN).replace(FOLDER, f"{tmp_path}/var").replace(RUN, f"{tmp_path}/run")
    for command in (f"{own}echo written; exit 3", locked("echo written; exit 3", own).replace(LOCK, f"{tmp_path}/m")):
        done = subprocess.run([*shell, "-c", command], capture_output=True, text=True, check=False)
        lost = refusal("pi1", done.returncode, done.stderr)
        assert (done.stdout, lost is None) == (("written\n", True) if goes_on else ("", False)), done.stderr
        if lost is not None:
            by = "is held by bob (bob/pinet-" if BOB in files.values() else "no user holds it now"
            assert lost.message.startswith("the lock on pi1 was lost during the test, and " + by)


def test_a_command_that_fails_by_itself_is_no_refusal() -> None:
    assert refusal("pi1", 87, "make: *** [all] Error 87\n") is None
    assert refusal("pi1", 1, "pinet-lease: held by ann/x 1 ann\n") is None
