"""When a node is switched, power-cycled, waited for, and restored to its initial state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pexpect import TIMEOUT

from pytest_pinet.errors import ConsoleError, ShutdownError, SshError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.console.drivers import BootPanic
from pytest_pinet.lab.console.record import ConsoleRecord
from pytest_pinet.lab.node import guard, shutdown
from pytest_pinet.lab.node.node_login import SSH_TIMEOUT_S, answer_timeout_s
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.tuning import journal
from pytest_pinet.tuning.journal import Replayed
from tests.support.changed_node import change_node
from tests.support.node_board import BOOT_S, Board, bring_up, replace_node, session


@pytest.fixture(autouse=True)
def _answers(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_node(monkeypatch)


def test_a_node_found_off_is_switched_on_and_off_again_at_the_end() -> None:
    board = Board(False)
    bring_up(board).leave()
    assert board.log == ["console", "on", "halt", "off", "invalidate"]


def test_a_node_that_was_switched_on_and_not_logged_in_is_switched_off_at_the_end() -> None:
    board = Board(False)
    found = session(board)
    found.switch_on()
    # It boots: the login on the console waits for that.
    found.leave()
    assert board.log == ["console", "on", "halt on the console", "off", "invalidate"]
    assert board.timeouts == [pytest.approx(BOOT_S, abs=1)]


def test_a_node_found_on_is_not_switched() -> None:
    board = Board(True)
    bring_up(board).leave()
    assert board.log == ["invalidate"]


def test_an_answering_node_with_unknown_power_is_not_switched() -> None:
    board = Board(None)
    bring_up(board).leave()
    assert board.log == ["invalidate"]
    assert board.timeouts[0] < BOOT_S


def test_a_silent_node_with_unknown_power_is_switched_on_and_stays_on() -> None:
    board = Board(None, TIMEOUT("nothing"))
    bring_up(board).leave()
    assert board.log == ["off", "console", "on", "invalidate"]


def test_ssh_gets_the_rest_of_the_boot_timeout() -> None:
    board = Board(False)
    bring_up(board)
    assert board.timeouts == [pytest.approx(BOOT_S, abs=1), pytest.approx(BOOT_S, abs=1)]


def test_a_node_that_was_on_gets_a_short_ssh_timeout() -> None:
    board = Board(True)
    found = bring_up(board)
    assert board.timeouts[1] == pytest.approx(max(SSH_TIMEOUT_S, answer_timeout_s(found.node)), abs=1)


def test_a_node_in_virtual_time_may_be_silent_for_longer_over_ssh() -> None:
    board = Board(True)
    found = session(board)
    change_node(found, clock=VIRTUAL)
    found.switch_on()
    found.log_in()
    assert found.node.patience > 1
    assert board.timeouts[1] == pytest.approx(max(SSH_TIMEOUT_S * found.node.patience, BOOT_S / 6), abs=1)


def test_a_node_that_was_booted_just_before_gets_the_rest_of_the_boot_timeout_for_ssh() -> None:
    board = Board(True)
    board.up_s = 20.0
    bring_up(board)
    assert board.timeouts[1] == BOOT_S - 20


def test_a_slow_node_may_be_silent_for_longer() -> None:
    node = session(Board(True)).node
    assert answer_timeout_s(replace(node, boot_timeout_s=8)) == 5
    assert answer_timeout_s(replace(node, boot_timeout_s=180)) == 30


def test_a_node_that_hangs_is_power_cycled_at_once() -> None:
    board = Board(True, TIMEOUT("nothing"))
    found = bring_up(board)
    assert board.log == ["off", "console", "on"]
    # We did not boot it, so there is no warning.
    assert found.take_warnings() == []


def test_a_node_with_a_dead_console_is_shut_down_over_ssh_before_the_power_cycle() -> None:
    board = Board(True, TIMEOUT("nothing"))
    board.answers_alone = True
    found = bring_up(board)
    assert board.log == ["halt", "off", "console", "on"]
    assert found.take_warnings() == []


def test_a_node_without_ssh_is_shut_down_on_its_console_before_the_power_cycle() -> None:
    board = Board(True, None, Exception("Timeout while waiting for ssh connection"))
    bring_up(board)
    assert board.log == ["halt on the console", "off", "console", "on"]


def test_a_failed_boot_is_repeated_once_with_a_warning() -> None:
    board = Board(False, TIMEOUT("nothing"))
    found = bring_up(board)
    assert board.log == ["console", "on", "off", "console", "on"]
    assert found.take_warnings() == [
        "pi1 came up only after a second power cycle: pi1 does not answer on its serial console: "
        + str(TIMEOUT("nothing")).splitlines()[0]
    ]


def test_a_login_on_a_system_that_goes_down_is_followed_by_that_of_its_next_boot() -> None:
    """The login, its first command and the halt of the old system met: a good build was called one that hangs."""
    board = Board(False)
    board.going_down = 1
    found = bring_up(board)
    assert board.log == ["console", "on", "await boot"]
    assert len(board.timeouts) == 3
    assert found.take_warnings() == []


@pytest.mark.parametrize("on", [True, False])
def test_a_second_failed_boot_is_an_error(on: bool) -> None:
    board = Board(on, TIMEOUT("nothing"), TIMEOUT("still nothing"))
    with pytest.raises(ConsoleError, match=r"pi1 does not answer .* nothing \(also after a power cycle\)"):
        bring_up(board)
    assert board.log.count("on") == (1 if on else 2)
    assert len(board.timeouts) == 2


def test_the_error_of_a_panic_at_boot_has_the_console_excerpt() -> None:
    board = Board(False, BootPanic("pi1 panicked"), BootPanic("pi1 panicked"))
    board.record = ConsoleRecord("pi1")
    board.record.feed(b"[ 1.0] Run /init\n[ 1.1] Kernel panic - not syncing: VFS: Unable to mount root fs\n")
    found = session(board)
    found.switch_on()
    meet = board._meet

    def panic_again(timeout_s: float) -> None:
        assert board.record is not None
        if board.timeouts:
            board.record.feed(b"[ 1.2] Kernel panic - not syncing: again\n")
        meet(timeout_s)

    board._meet = panic_again  # type: ignore[method-assign]
    with pytest.raises(ConsoleError, match=r"kernel panic on pi1 while it booted, at .*: \[1.2\] Kernel p.*ing: again"):
        found.log_in()
    assert board.log == ["console", "on", "off", "console", "on"]


def test_a_panic_between_login_and_ssh_is_reported_as_a_panic() -> None:
    board = Board(False, None, SshError("gave up"), None, SshError("gave up"))
    record = board.record = ConsoleRecord("pi1")
    meet = board._meet

    def connect(timeout_s: float) -> None:
        record.feed(b"Kernel panic - not syncing: late\n")
        meet(timeout_s)

    board.connect = connect  # type: ignore[method-assign]
    with pytest.raises(ConsoleError, match="kernel panic on pi1 while it booted") as caught:
        bring_up(board)
    assert "Kernel panic - not syncing: late" in caught.value.excerpt
    assert "also after a power cycle" in caught.value.message


def test_a_reset_boots_a_node_that_answers() -> None:
    board = Board(True)
    found = bring_up(board)
    found.reset_due = True
    found.switch_on()
    found.log_in()
    assert board.log == ["halt", "off", "console", "on"]
    assert board.timeouts[2] == pytest.approx(BOOT_S, abs=1)
    found.leave()
    assert board.log == ["halt", "off", "console", "on", "invalidate"]


def test_a_node_with_a_broken_kernel_is_rebooted_at_its_release() -> None:
    board = Board(True)
    found = bring_up(board)
    found.leave()
    found.reset_due = True
    found.reboot_at_release()
    assert board.log == ["invalidate", "halt on the console", "off", "console", "on", "invalidate"]
    found.reboot_at_release()
    assert board.log.count("on") == 1


def test_a_node_whose_kernel_panicked_is_rebooted_at_its_release_without_a_shutdown() -> None:
    board = Board(True)
    board.record = ConsoleRecord("pi1")
    found = bring_up(board)
    board.record.feed(b"[ 9.0] Kernel panic - not syncing: Fatal exception in interrupt\n")
    found.leave()
    found.reset_due = True
    found.reboot_at_release()
    assert board.log == ["invalidate", "off", "console", "on", "invalidate"]
    # What the next user does to the node is unknown.
    assert not board.record.panicked


def test_an_interrupted_reset_leaves_the_node_on(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(True)
    found = bring_up(board)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(Deadline, "wait_until", interrupt)
        found.reset_due = True
        with pytest.raises(KeyboardInterrupt):
            found.reset_if_due()
    # The node halts now. Its next user could switch it on only by a power cycle.
    found.leave()
    found.reboot_at_release()
    assert board.log == ["halt", "off", "console", "on", "invalidate"]


def test_a_reset_that_was_interrupted_without_power_leaves_the_node_on() -> None:
    board = Board(True)
    found = bring_up(board)
    found.reset()
    found.leave()
    assert board.log == ["halt", "off", "console", "on", "invalidate"]


def test_power_comes_back_even_without_a_console_server() -> None:
    board = Board(True)
    found = bring_up(board)
    found.reset()

    def refuse() -> None:
        raise ConsoleError("the console server of pi1 cannot be reached")

    board.switch_on = refuse  # type: ignore[method-assign]
    found.leave()
    assert board.log == ["halt", "off", "on", "invalidate"]


def test_a_lost_node_that_halts_is_reported() -> None:
    board = Board(True)
    found = bring_up(board)
    found.reset()
    found.abandon()
    assert found.take_warnings() == ["pi1 is off or halted, because this run lost its place while it rebooted pi1"]


def test_a_node_that_refuses_to_halt_keeps_its_power(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(False)
    found = bring_up(board)
    refused = Completed(1, "", "sudo: a password is required\n")
    monkeypatch.setattr(found.shell, "run", lambda command, timeout_s: refused)
    with pytest.raises(ShutdownError, match=r"pi1 cannot be shut down, so its power was not cut: sudo: a password is"):
        found.leave()
    assert board.log == ["console", "on", "invalidate"]


@pytest.mark.parametrize("line", [b"[   42.1] reboot: Power down\n", b"[ 42.1] reboot: System halted\n"])
def test_the_halt_on_the_console_ends_the_wait(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    # Without the line, the wait ends after an hour of silence.
    monkeypatch.setattr(shutdown, "SILENT_S", 3600.0)
    board = Board(False)
    record = board.record = ConsoleRecord("pi1")
    found = bring_up(board)
    run = found.shell.run

    def halt(command: str, timeout_s: float = 10.0) -> Completed:
        record.feed(line)
        return run(command, timeout_s)

    monkeypatch.setattr(found.shell, "run", halt)
    found.leave()
    assert board.log == ["console", "on", "halt", "off", "invalidate"]
    assert found.take_warnings() == []


@pytest.mark.parametrize(
    ("lines", "warning"),
    [
        (b"[ 42.1] Kernel panic - not syncing: Attempted to kill init!\n", "pi1 panicked while it shut down, so"),
        (b"[    0.000000] Booting Linux on physical CPU 0x0\n", "pi1 restarted while it shut down, so its power was c"),
        (b"Stopping nfs\n", "pi1 did not halt within 0 s, so its power was cut, its console said last: 20"),
    ],
)
def test_a_node_that_does_not_halt_is_cut_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, lines: bytes, warning: str
) -> None:
    monkeypatch.setattr(shutdown, "SILENT_S", 3600.0)
    monkeypatch.setattr(shutdown, "SHUTDOWN_S", 0.2)
    board = Board(False)
    record = board.record = ConsoleRecord("pi1")
    found = bring_up(board)
    run = found.shell.run

    def break_down(command: str, timeout_s: float = 10.0) -> Completed:
        record.feed(lines)
        return run(command, timeout_s)

    monkeypatch.setattr(found.shell, "run", break_down)
    found.leave()
    assert board.log == ["console", "on", "halt", "off", "invalidate"]
    (said,) = found.take_warnings()
    assert said.startswith(warning)
    assert "Stopping nfs" not in str(lines) or said.endswith("Stopping nfs")
    # These problems are not reported again by the next test.
    assert found.take_unreported() == []


def test_a_broken_node_that_was_found_off_is_only_switched_off() -> None:
    board = Board(False)
    found = bring_up(board)
    found.leave()
    found.reset_due = True
    found.reboot_at_release()
    assert board.log == ["console", "on", "halt", "off", "invalidate"]


@pytest.mark.parametrize(
    "answers", [(ConsoleError("refused user 'root'"),), (None, SshError("ssh refused root@pi1: Permission denied"))]
)
def test_a_refused_login_is_an_error_without_a_power_cycle(answers: tuple[Exception | None, ...]) -> None:
    board = Board(True, *answers)
    with pytest.raises((ConsoleError, SshError), match="refused"):
        bring_up(board)
    assert board.log == []


def test_a_node_without_ssh_is_an_ssh_error() -> None:
    silent = Exception("Timeout while waiting for ssh connection")
    with pytest.raises(SshError, match="pi1 does not answer over ssh: Timeout while"):
        bring_up(Board(False, None, silent, None, None, silent))


@pytest.mark.parametrize(("found", "stays_on"), [(False, True), (True, False), (None, False)])
def test_a_lost_node_keeps_its_power_state(found: bool | None, stays_on: bool) -> None:
    board = Board(found)
    lost = bring_up(board)
    assert lost.abandon() is stays_on
    assert not lost.ready
    assert "off" not in board.log
    assert board.log[-1] == "abandon"


def test_changes_of_a_dead_run_are_undone_at_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_pinet.lab.node.node_session.replay", lambda _: Replayed(done=("mtu=9000 of pi1:usb",)))
    board = Board(True)
    found = bring_up(board)
    assert board.log == []
    assert found.take_warnings() == ["undid mtu=9000 of pi1:usb, which an interrupted run left on pi1"]


@pytest.fixture
def guards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of guards on the node."""
    monkeypatch.setattr(guard, "FOLDER", f"{tmp_path}/guards")
    monkeypatch.setattr(journal, "FOLDER", f"{tmp_path}/journal")
    return tmp_path / "guards"


def start_guard(session: NodeSession, guards: Path) -> None:
    """Start the guard of a session by another shell: ``Answering`` ends what its commands leave running."""
    session._guard = guard.Guard(SshShell("pi1", ["/bin/sh", "-c"]))
    session.guard.start()
    assert Deadline(10.0).wait_until(lambda: len(list(guards.iterdir())) == 3)


def test_the_guard_ends_with_the_lease(guards: Path) -> None:
    found = bring_up(Board(True))
    start_guard(found, guards)
    found.leave()
    assert list(guards.iterdir()) == []


def test_the_guard_of_a_dead_run_ends_at_login(guards: Path) -> None:
    dead = bring_up(Board(True))
    start_guard(dead, guards)
    dead.guard.abandon()
    bring_up(Board(True))
    assert list(guards.iterdir()) == []


def test_a_boot_ends_the_guard_and_the_next_change_starts_another(guards: Path) -> None:
    found = bring_up(Board(True))
    first = found.guard
    found.reset()
    found.switch_on()
    found.log_in()
    assert found.guard is not first


def test_a_node_whose_settings_cannot_be_restored_is_booted(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Replayed(failed=("mtu=9000 of pi1:usb (Device or resource busy)",))
    monkeypatch.setattr("pytest_pinet.lab.node.node_session.replay", lambda _: failed)
    board = Board(True)
    found = bring_up(board)
    assert board.log == ["halt", "off", "console", "on"]
    assert found.take_warnings() == [
        "could not undo mtu=9000 of pi1:usb (Device or resource busy) on pi1: rebooted pi1"
    ]


def test_a_node_that_hangs_during_the_restore_is_booted(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(_: object) -> Replayed:
        raise SshError("pi1 did not answer over ssh within 30 s")

    monkeypatch.setattr("pytest_pinet.lab.node.node_session.replay", hang)
    board = Board(True)
    found = bring_up(board)
    assert board.log == ["halt", "off", "console", "on"]
    assert found.take_warnings() == [
        "could not undo the changes of an interrupted run (pi1 did not answer over ssh within 30 s) on pi1: "
        "rebooted pi1"
    ]
