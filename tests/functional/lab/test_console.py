"""Console driver, strategy and power of a board whose hardware is a stand-in on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from labgrid.step import steps

from pytest_pinet.catalogue.load import load
from pytest_pinet.errors import ConfigError, ConsoleError, PowerError, Where
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind
from pytest_pinet.lab.labgrid import power
from pytest_pinet.lab.node import node_login
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.lab import Node
from tests.support.board_stand_in import Board
from tests.support.waiting import wait_until

# labgrid's log of serial lines fails on a console without output so far (KeyError in flush).
pytestmark = pytest.mark.filterwarnings("ignore:unhandled exception during event notification")

BOOT = "[    0.000000] Booting Linux on physical CPU 0x0\n[    1.100000] Run /sbin/init as init process\n"
PANIC = (
    BOOT + "[    2.7] Kernel panic - not syncing: VFS: Unable to mount root fs\n[    2.8] ---[ end Kernel panic ]---\n"
)
NewBoard = Callable[..., Board]


@pytest.fixture
def new_board() -> Iterator[NewBoard]:
    made: list[Board] = []

    def make(*boots: str, serial_driver: str = "PiSerialDriver") -> Board:
        made.append(Board(boots, serial_driver))
        return made[-1]

    yield make
    for board in made:
        board.close()


def record_of(board: Board) -> ConsoleRecord:
    assert board.strategy.record is not None
    return board.strategy.record


def texts(file: Path) -> list[str]:
    return [line.partition(" ")[2] for line in file.read_text().splitlines()]


# -- the console driver -----------------------------------------------------------------------------------------------


def test_the_console_is_recorded_from_power_on(new_board: NewBoard, tmp_path: Path) -> None:
    board = new_board(BOOT)
    record = record_of(board)
    record.assign("pi1", tmp_path / "pi1.log")
    board.strategy.switch_on()
    wait_until("the boot", lambda: "Run /sbin/init" in record.tail())
    board.console.say("\n[    5.0] NETDEV WATCHDOG: eth0 (macb): transmit queue 0 timed out\n")
    wait_until("the finding", lambda: len(record.findings) == 2)
    assert [finding.kind for finding in record.findings] == [KernelEventKind.RESTART, KernelEventKind.NETDEV_WATCHDOG]
    board.target.deactivate_all_drivers()
    assert texts(tmp_path / "pi1.log") == [
        "-- console open",
        "-- power on",
        *BOOT.splitlines(),
        "pi1 login:",
        "[    5.0] NETDEV WATCHDOG: eth0 (macb): transmit queue 0 timed out",
        "-- console closed",
    ]
    assert threading.active_count() < 20


@pytest.mark.parametrize("driver", ["PiSerialDriver", "SerialDriver"])
def test_both_drivers_log_in(new_board: NewBoard, driver: str) -> None:
    board = new_board(serial_driver=driver)
    board.strategy.transition("booted")
    assert board.strategy.path == ["off", "booted"]
    assert (board.strategy.record is None) is (driver == "SerialDriver")


def test_expect_sees_output_from_before_its_call(new_board: NewBoard) -> None:
    board = new_board()
    board.target.activate(board.serial)
    wait_until("the connection", lambda: board.console.clients)
    board.console.say("early words\n")
    wait_until("the words", lambda: "early words" in record_of(board).tail())
    index, before, _, _ = board.serial.expect(["words", "never"], timeout=20)
    assert (index, before) == (0, b"early ")


def test_output_of_an_earlier_boot_is_not_taken_for_an_answer(new_board: NewBoard) -> None:
    from pexpect import TIMEOUT

    board = new_board()
    board.target.activate(board.serial)
    wait_until("the connection", lambda: board.console.clients)
    board.console.say("pi1 login: Password: ")
    board.serial.expect("login: ", timeout=20)
    board.target.deactivate(board.serial)
    board.console.hang_up()
    board.target.activate(board.serial)
    assert board.serial.expect(["Password: ", TIMEOUT], timeout=0.3)[0] == 1


def test_a_flood_is_recorded_and_unread_output_is_bounded(new_board: NewBoard) -> None:
    from pytest_pinet.lab.console.drivers import LARGEST_BACKLOG

    board = new_board()
    board.target.activate(board.serial)
    wait_until("the connection", lambda: board.console.clients)
    for _ in range(20):
        board.console.say("x" * 78 + "\n" + ("y" * 78 + "\n") * 1000)
    board.console.say("the end\n")
    wait_until("the end", lambda: "the end" in record_of(board).tail(3), timeout_s=60)
    assert len(board.serial._inbox) <= LARGEST_BACKLOG
    assert board.serial.expect("the end", timeout=20)[0] == 0


def test_a_lost_console_server_is_reported(new_board: NewBoard) -> None:
    board = new_board()
    board.target.activate(board.serial)
    wait_until("the connection", lambda: board.console.clients)
    board.console.hang_up()
    wait_until("the loss", lambda: record_of(board).trouble)
    assert str(record_of(board).trouble).startswith("the console of pi1 was lost, and nothing is recorded since then: ")
    with pytest.raises(OSError, match="disconnected"):
        board.serial.expect("anything", timeout=20)


def test_the_reading_thread_uses_no_steps_of_labgrid(new_board: NewBoard) -> None:
    board = new_board()
    seen: list[str] = []

    def notice(event: object) -> None:
        seen.append(threading.current_thread().name)

    steps.subscribe(notice)
    try:
        board.strategy.transition("booted")
        board.console.say("\nmore\n")
        wait_until("more", lambda: "more" in record_of(board).tail())
    finally:
        steps.unsubscribe(notice)
    assert set(seen) <= {"MainThread", "bounded call"}


# -- the strategy -----------------------------------------------------------------------------------------------------


def test_force_switches_no_power(new_board: NewBoard) -> None:
    board = new_board()
    board.strategy.transition("booted")
    board.strategy.invalidate()
    board.strategy.force("booted")
    assert board.strategy.path == ["off", "booted"]
    board.strategy.force("off")
    assert board.strategy.path == ["off"]
    assert board.pdu.log == ["off", "on"]
    # From this state it boots without a power-off.
    board.strategy.transition("booted")
    assert board.pdu.log == ["off", "on", "on"]


def test_force_refuses_an_unknown_state(new_board: NewBoard) -> None:
    with pytest.raises(ConfigError, match=r"no state 'on'; accepted: booted, off, ready"):
        new_board().strategy.force("on")


# -- boots that fail --------------------------------------------------------------------------------------------------


def session_of(board: Board, boot_timeout_s: float) -> NodeSession:
    node = Node("pi1", load().boards["pi4b"], "pi1", "pi1", (), Where("lab.yaml", 1), boot_timeout_s)
    return NodeSession(node, board.target)


@pytest.mark.parametrize("driver", ["PiSerialDriver", "SerialDriver"])
def test_a_panic_ends_the_wait_for_a_boot_at_once(new_board: NewBoard, driver: str) -> None:
    board = new_board(PANIC, PANIC, serial_driver=driver)
    session = session_of(board, 60)
    session.switch_on()
    started = time.monotonic()
    with pytest.raises(
        ConsoleError, match=r"kernel panic on pi1 while it booted.*: VFS: Unable to mount.*after a power cycle"
    ) as caught:
        session.log_in()
    # Two boots of 60 s were allowed. The strategy did not wait for either timeout.
    assert time.monotonic() - started < 60
    assert board.pdu.log == ["on", "off", "on"]
    if driver == "PiSerialDriver":
        assert "Run /sbin/init as init process" in caught.value.excerpt
    session.leave()
    assert not board.pdu.on


def test_a_board_that_panics_once_is_booted_again_with_a_warning(new_board: NewBoard) -> None:
    board = new_board(PANIC, BOOT)
    session = session_of(board, 20)
    without_ssh(session)
    session.switch_on()
    session.log_in()
    assert session.ready
    (warning,) = session.take_warnings()
    assert warning.startswith("pi1 came up only after a second power cycle: kernel panic on pi1 while it booted, at 2")
    assert session.record is not None
    assert session.record.findings == ()
    session.leave()
    assert board.halts == 1


def test_a_board_that_was_only_switched_on_is_shut_down_at_the_end(new_board: NewBoard) -> None:
    board = new_board(BOOT)
    session = session_of(board, 20)
    session.switch_on()
    session.leave()
    assert (board.halts, board.pdu.log) == (1, ["on", "off"])


def test_a_board_that_still_prints_has_its_boot_timeout(new_board: NewBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_login, "ANSWER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(node_login, "SILENT_SHARE", 0.0)
    board = new_board()
    board.pdu.on = True
    session = session_of(board, 30)
    without_ssh(session)

    def boot() -> None:
        for second in range(8):
            board.console.say(f"[    {second}.000000] systemd[1]: Starting service {second}\n")
            time.sleep(0.4)
        board.come_up()

    booting = threading.Thread(target=boot)
    session.switch_on()
    session.strategy.open_console()
    booting.start()
    session.log_in()
    booting.join()
    assert session.ready
    assert board.pdu.log == []
    session.leave()


def test_a_board_that_prints_and_then_hangs_is_power_cycled_after_its_boot_timeout(
    new_board: NewBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_login, "ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setattr(node_login, "SSH_ALONE_TIMEOUT_S", 0.5)
    monkeypatch.setattr(node_login, "SILENT_SHARE", 0.0)
    board = new_board()
    board.pdu.on = True
    session = session_of(board, 3)
    without_ssh(session)
    session.switch_on()
    session.strategy.open_console()
    wait_until("the connection", lambda: board.console.clients)
    board.console.say(BOOT)
    started = time.monotonic()
    session.log_in()
    assert time.monotonic() - started > 3
    assert board.pdu.log == ["off", "on"]
    assert board.halts == 0
    session.leave()


def without_ssh(session: NodeSession) -> None:
    """Use this board, which has a console only."""
    session.strategy.connect = lambda timeout_s: None
    session.strategy.ssh.ssh_prefix = []
    session._undo_leftovers = lambda: None  # type: ignore[method-assign]


def test_the_error_for_a_hanging_console_quotes_its_last_line(
    new_board: NewBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_login, "ANSWER_TIMEOUT_S", 1)
    monkeypatch.setattr(node_login, "SSH_ALONE_TIMEOUT_S", 0.5)
    board = new_board("", "")
    session = session_of(board, 1)
    session.switch_on()
    with pytest.raises(ConsoleError, match=r"pi1 does not answer .*it printed nothing \(also after a power cycle\)"):
        session.log_in()
    session.leave()


# -- power ------------------------------------------------------------------------------------------------------------


def test_a_dead_pdu_is_an_error_within_the_timeout(new_board: NewBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "REQUEST_TIMEOUT_S", 0.3)
    board = new_board()
    board.pdu.dead = True
    acts: list[Callable[[], object]] = [
        lambda: board.strategy.node_power.is_on(),
        lambda: board.strategy.node_power.switch(on=True),
    ]
    for act in acts:
        with pytest.raises(
            PowerError, match=r"power switch of pi1 \(http://127.* outlet 1\) failed to .*[Tt]imed? ?out"
        ):
            act()


def test_a_pdu_that_does_not_switch_is_an_error(new_board: NewBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "SETTLE_TIMEOUT_S", 0.3)
    board = new_board()
    board.pdu.lies = True
    with pytest.raises(PowerError, match=r"pi1 accepted 'on', but still reports the opposite(?s:.*)outlet number"):
        board.strategy.transition("booted")


def test_a_power_cycle_keeps_the_off_time_of_the_driver(new_board: NewBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    slept: list[float] = []
    monkeypatch.setattr(power, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=slept.append))
    switch = new_board().strategy.node_power
    switch.rest()
    assert slept == []
    switch.switch(on=False)
    # Its driver has a delay of 0.2 s.
    for after_s in (0.0, 0.15, 0.3):
        now[0] = 100.0 + after_s
        switch.rest()
    assert slept == pytest.approx([0.2, 0.05, 0.0])
