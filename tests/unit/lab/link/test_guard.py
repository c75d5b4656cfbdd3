"""The guard on a node: it undoes a change if it is not renewed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.link import guard
from pytest_pinet.lab.link.guard import Guard
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.tuning.journal import JournalEntry

# Whole seconds: the guard reads the uptime without its fraction.
SHORT_S, LONG_S = 1.0, 60.0


class Node:
    """This machine as a node, with its own folders of journal and guards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.undone = folder / "undone"
        self.shell = SshShell("node", ["/bin/sh", "-c"])
        self.guards: list[Guard] = []

    def guard(self, script: str = "") -> Guard:
        """Start a guard whose undo writes the file ``undone``, after this script."""
        entry = JournalEntry.new("eth0 of node", f"{script or ':'} && echo >{self.undone}", f"{self.folder}/journal")
        found = Guard(self.shell, entry)
        assert self.shell.run(as_root(f"{entry.kept()} && {found.armed()}")).returncode == 0
        self.guards.append(found)
        return found

    def disarm(self, guard: Guard) -> None:
        guard.stop_renewing()
        assert self.shell.run(as_root(guard.disarmed())).returncode == 0

    @property
    def processes(self) -> str:
        # The brackets keep the shell of this command out.
        name = f"{self.folder}/guard[s]"
        return self.shell.run(f"pgrep -f '{name}'").stdout

    @property
    def files(self) -> list[str]:
        return sorted(path.suffix for path in (self.folder / "guards").iterdir())


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(guard, "FOLDER", f"{tmp_path}/guards")
    found = Node(tmp_path)
    yield found
    for one in found.guards:
        found.disarm(one)


@pytest.fixture
def lapses_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return lambda seconds: monkeypatch.setattr(guard, "LAPSES_AFTER_S", seconds)


def within(seconds: float, condition: Callable[[], object]) -> bool:
    return Deadline(seconds).wait_until(lambda: bool(condition()))


def test_a_guard_that_is_not_renewed_undoes_the_change_and_ends(
    node: Node, lapses_after: Callable[[float], None]
) -> None:
    lapses_after(SHORT_S)
    node.guard()
    assert within(10, node.undone.exists)
    assert within(10, lambda: not node.processes and not node.files)


def test_a_renewed_guard_waits(node: Node, lapses_after: Callable[[float], None]) -> None:
    lapses_after(4 * SHORT_S)
    found = node.guard()
    found.start_renewing()
    assert not within(7 * SHORT_S, node.undone.exists)
    assert not found.lapsed
    found.stop_renewing()
    assert within(20, node.undone.exists)


def test_a_disarmed_guard_leaves_nothing(node: Node, lapses_after: Callable[[float], None]) -> None:
    lapses_after(LONG_S)
    found = node.guard()
    assert within(10, lambda: node.files == ["", ".pid", ".sh"])
    node.disarm(found)
    assert within(10, lambda: not node.processes)
    assert node.files == []
    assert not node.undone.exists()


def test_an_undo_that_fails_is_tried_again(
    node: Node, lapses_after: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lapses_after(SHORT_S)
    monkeypatch.setattr(guard, "RETRY_S", 1)
    # It fails the first time, as a manager does that is being restarted.
    node.guard(f"{{ [ -e {node.folder}/again ] || {{ echo >{node.folder}/again; false; }}; }}")
    assert within(10, node.undone.exists)
    assert within(10, lambda: not node.processes)


def test_the_run_learns_that_the_guard_has_acted(node: Node, lapses_after: Callable[[float], None]) -> None:
    lapses_after(SHORT_S)
    found = node.guard()
    assert within(10, node.undone.exists)
    found.start_renewing()
    assert within(10, lambda: found.lapsed)
