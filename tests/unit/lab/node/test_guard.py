"""The guard on a node: it undoes all changes if it is not renewed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.node import guard
from pytest_pinet.lab.node.guard import Guard, stop_all
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.tuning import journal
from pytest_pinet.tuning.journal import JournalEntry

# Whole seconds: the guard reads the uptime without its fraction.
SHORT_S, LONG_S = 1.0, 60.0


class Node:
    """This machine as a node, with its own folders of journal and guards."""

    def __init__(self, folder: Path, path: str = os.environ["PATH"]) -> None:
        self.folder = folder
        self.undone = folder / "undone"
        self.shell = SshShell("node", ["env", f"PATH={path}", "/bin/sh", "-c"])
        self.guards: list[Guard] = []

    def change(self, what: str = "eth0 of node", script: str = ":") -> JournalEntry:
        """Write a journal entry whose undo adds a line to the file ``undone``, after this script."""
        undo = f"{{ {script}; }} && echo {what} >>{self.undone}"
        entry = JournalEntry.new(what, undo, f"{self.folder}/journal")
        assert self.shell.run(as_root(entry.kept())).returncode == 0
        return entry

    def guard(self) -> Guard:
        found = Guard(self.shell)
        self.guards.append(found)
        found.start()
        return found

    @property
    def processes(self) -> str:
        # The brackets keep the shell of this command out.
        name = f"{self.folder}/guard[s]"
        return self.shell.run(f"pgrep -f '{name}'").stdout

    @property
    def files(self) -> list[str]:
        return sorted(path.suffix for path in (self.folder / "guards").iterdir())

    @property
    def is_clean(self) -> bool:
        return not self.processes and not self.files


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(guard, "FOLDER", f"{tmp_path}/guards")
    monkeypatch.setattr(journal, "FOLDER", f"{tmp_path}/journal")
    found = Node(tmp_path)
    yield found
    for one in found.guards:
        one.abandon()
    stop_all(found.shell)


@pytest.fixture
def lapses_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return lambda seconds: monkeypatch.setattr(guard, "LAPSES_AFTER_S", seconds)


def within(seconds: float, condition: Callable[[], object]) -> bool:
    return Deadline(seconds).wait_until(lambda: bool(condition()))


def test_a_guard_that_is_not_renewed_undoes_all_changes_the_last_one_first_and_ends(
    node: Node, lapses_after: Callable[[float], None]
) -> None:
    lapses_after(SHORT_S)
    for what in ("module", "eth0", "arp"):
        node.change(what)
    node.guard().abandon()
    assert within(10, lambda: node.is_clean)
    assert node.undone.read_text().split() == ["arp", "eth0", "module"]
    assert not list((node.folder / "journal").iterdir())


def test_a_renewed_guard_waits_and_acts_after_its_run_was_killed(node: Node) -> None:
    run = f"""
import sys, time
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.node import guard
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.tuning import journal
guard.FOLDER, journal.FOLDER = "{node.folder}/guards", "{node.folder}/journal"
guard.LAPSES_AFTER_S = 4.0
shell = SshShell("node", ["/bin/sh", "-c"])
guard.Guard(shell).start()
for what in ("eth0", "arp"):
    entry = journal.JournalEntry.new(what, f"echo {{what}} >>{node.undone}", journal.FOLDER)
    assert shell.run(as_root(entry.kept())).returncode == 0
print("changed", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", run], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "changed\n"
        # Renewed for longer than it waits.
        assert not within(6.0, node.undone.exists)
        process.kill()
    assert within(15, lambda: node.is_clean)
    assert node.undone.read_text().split() == ["arp", "eth0"]


def test_a_second_start_changes_nothing(node: Node) -> None:
    found = node.guard()
    assert within(10, lambda: node.files == ["", ".pid", ".sh"])
    found.start()
    assert node.files == ["", ".pid", ".sh"]


def test_a_stopped_guard_leaves_nothing(node: Node, lapses_after: Callable[[float], None]) -> None:
    lapses_after(LONG_S)
    entry = node.change()
    found = node.guard()
    assert within(10, lambda: node.files == ["", ".pid", ".sh"])
    assert node.shell.run(as_root(entry.undone())).returncode == 0
    node.undone.unlink()
    found.stop()
    assert within(10, lambda: node.is_clean)
    assert not node.undone.exists()


def test_a_guard_stays_as_long_as_a_change_is_left(node: Node, lapses_after: Callable[[float], None]) -> None:
    lapses_after(SHORT_S)
    node.change()
    node.guard().stop()
    assert within(10, node.undone.exists)
    assert within(10, lambda: node.is_clean)


def test_the_next_lease_ends_the_guards_of_earlier_leases(node: Node, lapses_after: Callable[[float], None]) -> None:
    lapses_after(4 * SHORT_S)
    node.guard().abandon()
    assert within(10, lambda: ".pid" in node.files)
    stop_all(node.shell)
    assert within(10, lambda: node.is_clean)
    # A change of the next lease.
    node.change()
    assert not within(5 * SHORT_S, node.undone.exists)


def test_a_guard_on_a_board_without_setsid_is_ended(node: Node, lapses_after: Callable[[float], None]) -> None:
    tools = node.folder / "tools"
    tools.mkdir()
    for name in ("cat", "env", "id", "ls", "mkdir", "mv", "nohup", "pgrep", "rm", "sh", "sleep", "tr"):
        (tools / name).symlink_to(str(shutil.which(name)))
    without = Node(node.folder, str(tools))
    assert without.shell.run(as_root("command -v setsid")).returncode
    lapses_after(LONG_S)
    without.change()
    without.guard().abandon()
    assert within(10, lambda: ".pid" in without.files)
    stop_all(without.shell)
    assert within(10, lambda: without.is_clean)
    assert not without.undone.exists()


def test_a_renewal_while_the_guard_undoes_comes_too_late(
    node: Node, lapses_after: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lapses_after(SHORT_S)
    # The undo takes as long as the test wants. The first renewal comes meanwhile.
    node.change(script=f"while [ ! -e {node.folder}/go ]; do sleep 0.1; done")
    monkeypatch.setattr(guard, "RENEWALS", 0.5)
    found = node.guard()
    assert within(10, lambda: found.lapsed)
    assert not node.undone.exists()
    (node.folder / "go").touch()
    assert within(10, lambda: node.is_clean)
    assert node.undone.exists()


def test_an_undo_that_fails_is_tried_again(
    node: Node, lapses_after: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lapses_after(SHORT_S)
    monkeypatch.setattr(guard, "RETRY_S", 1)
    # It fails the first time, as a manager does that is being restarted.
    node.change(script=f"[ -e {node.folder}/again ] || {{ echo >{node.folder}/again; false; }}")
    node.guard().abandon()
    assert within(10, node.undone.exists)
    assert within(10, lambda: node.is_clean)


def test_the_run_learns_that_the_guard_has_acted_and_starts_it_again(
    node: Node, lapses_after: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lapses_after(SHORT_S)
    node.change()
    # The first renewal comes too late.
    monkeypatch.setattr(guard, "RENEWALS", 0.5)
    found = node.guard()
    assert within(10, lambda: found.lapsed)
    assert within(10, node.undone.exists)
    found.lapses_after_s = LONG_S
    found.start()
    assert not found.lapsed
    assert within(10, lambda: node.files == ["", ".pid", ".sh"])
