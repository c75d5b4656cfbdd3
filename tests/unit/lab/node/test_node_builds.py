"""How a node handles builds under test: leftovers of other runs, and its own build."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import LabError, PinetError, SshError, UnsupportedError
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.deploy.known_good import COPY
from pytest_pinet.lab.deploy.recovery import Leftover
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.setting import NoKnob
from tests.support.node_board import Board, bring_up, replace_node

UNTUNED = Tuning()
FOUND = "pytest_pinet.lab.deploy.recovery.put_back"


@pytest.fixture(autouse=True)
def _answers(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_node(monkeypatch)


def left(monkeypatch: pytest.MonkeyPatch, *found: Leftover | SshError) -> None:
    """Set the leftovers that the next logins find."""
    answers = list(found)

    def put_back(*_: object) -> Leftover:
        answer = answers.pop(0)
        if isinstance(answer, SshError):
            raise answer
        return answer

    monkeypatch.setattr(FOUND, put_back)


def test_a_build_that_still_runs_is_removed_by_a_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    left(monkeypatch, Leftover("1a2b3c4d5e6f", files=True))
    board = Board(True)
    found = bring_up(board)
    assert board.log == ["halt", "off", "console", "on"]
    assert found.take_warnings() == [
        "removed the build under test that an interrupted run left on pi1, and booted the known-good build"
    ]


def test_a_boot_tuning_that_still_runs_is_removed_by_a_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    left(monkeypatch, Leftover(COPY.key, files=True))
    board = Board(True)
    found = bring_up(board)
    assert board.log == ["halt", "off", "console", "on"]
    assert found.take_warnings() == [
        "removed the boot tuning or trial boot that an interrupted run left on pi1, and booted the known-good build"
    ]


def test_files_of_a_build_that_does_not_run_are_removed_without_a_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    left(monkeypatch, Leftover(files=True, failed=("build new on pi1 (Read-only file system)",)))
    board = Board(True)
    found = bring_up(board)
    assert board.log == []
    assert found.take_warnings() == [
        "partly removed the build under test that an interrupted run left on pi1",
        "could not remove build new on pi1 (Read-only file system) from pi1",
    ]


def test_a_boot_that_a_killed_process_started_interrupts_the_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    left(monkeypatch, SshError("the ssh connection to pi1 was lost"), Leftover(files=True))
    board = Board(True)
    found = bring_up(board)
    assert board.log == ["halt", "off", "console", "on"]
    assert found.take_warnings() == ["removed the build under test that an interrupted run left on pi1"]


class Deployed:
    """Replaces Deployment."""

    active = True

    def __init__(self, trouble: PinetError | None = None, stale: bool = True, tuning: Tuning = UNTUNED) -> None:
        self.boots = 0
        self.stale, self.tuning, self.is_tuned_known_good = stale, tuning, bool(tuning)
        self._trouble = trouble

    def after_boot(self) -> None:
        self.boots += 1

    def take_back(self) -> bool:
        if self._trouble is not None:
            raise self._trouble
        return self.stale

    def tune(self, tuning: Tuning) -> None:
        if self._trouble is not None:
            raise self._trouble
        self.tuning = tuning

    def words(self) -> str:
        return "build new"


def with_build(board: Board, deployed: Deployed) -> NodeSession:
    found = bring_up(board)
    found._deployment = deployed  # type: ignore[assignment]
    return found


def test_after_any_power_cycle_the_wanted_build_runs_again() -> None:
    board = Board(True)
    found = with_build(board, deployed := Deployed())
    found.reset()
    found.switch_on()
    found.log_in()
    assert deployed.boots == 1


def test_a_node_that_runs_a_build_is_booted_at_its_release() -> None:
    board = Board(True)
    found = with_build(board, Deployed())
    found.leave()
    found.reboot_at_release()
    assert [word for word in board.log if word != "invalidate"] == ["halt on the console", "off", "console", "on"]


def test_a_node_whose_build_cannot_be_removed_is_booted() -> None:
    board = Board(True)
    found = with_build(board, Deployed(LabError("pi1 keeps build new")))
    with pytest.raises(LabError, match="pi1 keeps build new"):
        found.leave()
    found.reboot_at_release()
    assert [word for word in board.log if word != "invalidate"] == ["halt on the console", "off", "console", "on"]


def test_a_build_on_a_silent_node_is_reported_and_the_node_is_booted() -> None:
    board = Board(True)
    found = with_build(board, Deployed())
    found._shell = None
    found.leave()
    found.reboot_at_release()
    assert [word for word in board.log if word != "invalidate"] == ["halt on the console", "off", "console", "on"]
    assert found.take_warnings() == [
        "could not remove build new from pi1, which does not answer: the next boot starts the known-good build, and "
        "the next run removes the files"
    ]


FAST = Tuning((("arm_freq", "2000"),))


def test_a_node_with_a_boot_tuning_is_rebooted_at_its_release_and_its_power_stays_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board = Board(True)
    found = with_build(board, Deployed(tuning=FAST))
    commands: list[str] = []

    def run(command: str, timeout_s: float = 10.0) -> Completed:
        commands.append(command)
        return Completed(0, "", "")

    monkeypatch.setattr(found.shell, "run", run)
    found.leave()
    found.reboot_at_release()
    assert [word for word in board.log if word != "invalidate"] == []
    assert len(commands) == 1
    assert "vcmailbox 0x00038064 4 0 0" in commands[0]
    assert "; reboot; } </dev/null" in commands[0]


def test_a_node_with_a_boot_tuning_that_was_found_off_is_only_switched_off() -> None:
    board = Board(False)
    found = with_build(board, Deployed(tuning=FAST))
    found.leave()
    found.reboot_at_release()
    assert board.log == ["console", "on", "halt", "off", "invalidate"]


def test_a_refused_trial_boot_makes_the_setting_unsupported() -> None:
    found = with_build(Board(True), Deployed(UnsupportedError("pi1 boots by an A/B scheme")))
    with pytest.raises(NoKnob, match=r"^pi1 boots by an A/B scheme$"):
        found.boot_with(FAST)
    assert not found.reset_due


def test_a_node_that_was_lost_in_its_boot_is_booted_before_its_next_use() -> None:
    found = with_build(Board(True), Deployed(SshError("pi1 is lost")))
    found._shell = None
    with pytest.raises(SshError):
        found.boot_with(FAST)
    assert found.reset_due
    assert not found.boot_tuning


def test_a_node_that_came_up_without_the_tuning_is_not_booted_again() -> None:
    found = with_build(Board(True), Deployed(LabError("pi1 does not come up with arm_freq=2000")))
    with pytest.raises(LabError):
        found.boot_with(FAST)
    assert not found.reset_due
