"""The crash journal: written before a change, removed after it, and who owns each entry."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_pinet.lab.labgrid.identity import start_time
from pytest_pinet.lab.switch.journal import Journal, journal_folder
from pytest_pinet.lab.switch.switchport import PortState

UP = PortState(admin_up=True, vlan=1)


@pytest.fixture
def lab(tmp_path: Path) -> str:
    return str(tmp_path / "lab.yaml")


def pages(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def left(journal: Journal, **ports: dict[str, object]) -> None:
    """Record ports of switch ``sw`` as a process that died, and whose pid another process now has."""
    journal.record("sw", {name: PortState(**state) for name, state in ports.items()})  # type: ignore[arg-type]
    changed(journal, start=1)


def changed(journal: Journal, ports: Sequence[str] = (), **process: object) -> None:
    """Give these entries, or all entries of switch ``sw``, to another process."""
    with journal._changed("sw") as entries:
        for port in ports or list(entries):
            entries[port] = entries[port].model_copy(update=process)


def test_the_folder_follows_the_xdg_specification(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert journal_folder() == tmp_path / "pinet" / "journal"
    for ignored in ("", "not/absolute"):
        monkeypatch.setenv("XDG_STATE_HOME", ignored)
        assert journal_folder() == Path.home() / ".local" / "state" / "pinet" / "journal"


def test_a_port_stays_in_the_journal_until_it_is_forgotten(tmp_path: Path, lab: str) -> None:
    journal = Journal(lab, tmp_path / "j")
    journal.record("sw", {"p1": UP, "p2": PortState(poe=False)})
    (page,) = pages(tmp_path / "j")
    content = json.loads(page.read_text())
    assert content["lab"] == lab
    entries = content["switches"]["sw"]
    assert {port: entry["state"] for port, entry in entries.items()} == {
        "p1": {"admin_up": True, "vlan": 1},
        "p2": {"poe": False},
    }
    assert {(entry["pid"], entry["host"]) for entry in entries.values()} == {(os.getpid(), socket.gethostname())}
    assert journal.original("sw", "p1") == UP
    journal.forget("sw", ["p1"])
    assert journal.original("sw", "p1") is None
    journal.forget("sw", ["p2"])
    assert pages(tmp_path / "j") == []


def test_labs_and_switches_are_kept_apart(tmp_path: Path, lab: str) -> None:
    one, other = Journal(lab, tmp_path / "j"), Journal(f"{lab}.other", tmp_path / "j")
    one.record("sw", {"p1": UP})
    other.record("sw", {"p1": PortState(vlan=7)})
    one.record("sw2", {"p1": PortState(vlan=8)})
    assert [one.original("sw", "p1"), other.original("sw", "p1")] == [UP, PortState(vlan=7)]
    one.forget("sw", ["p1"])
    assert one.original("sw", "p1") is None
    assert [one.original("sw2", "p1"), other.original("sw", "p1")] == [PortState(vlan=8), PortState(vlan=7)]


def test_the_same_file_by_another_path_is_the_same_lab(tmp_path: Path, lab: str) -> None:
    Path(lab).touch()
    (tmp_path / "link.yaml").symlink_to(lab)
    Journal(lab, tmp_path / "j").record("sw", {"p1": UP})
    assert Journal(str(tmp_path / "link.yaml"), tmp_path / "j").original("sw", "p1") == UP


def test_ports_of_dead_processes_are_left_behind_and_ports_of_live_ones_are_not(tmp_path: Path, lab: str) -> None:
    journal = Journal(lab, tmp_path / "j")
    left(journal, p1={"admin_up": False, "vlan": 5}, p2={"vlan": 6})
    changed(journal, ["p2"], pid=1, start=start_time(1))
    journal.record("sw", {"p3": UP})
    assert journal.left_behind() == ({"sw": {"p1": PortState(admin_up=False, vlan=5)}}, [])
    # The port's original state, regardless of who moved it.
    assert journal.original("sw", "p2") == PortState(vlan=6)
    # It belongs to another process that lives.
    journal.forget("sw", ["p2"])
    assert journal.original("sw", "p2") == PortState(vlan=6)


def test_a_process_that_changes_a_port_of_a_dead_one_takes_over_what_is_not_restored(tmp_path: Path, lab: str) -> None:
    journal = Journal(lab, tmp_path / "j")
    left(journal, p1={"vlan": 5, "poe": False}, p2={"vlan": 6})
    taken = journal.record("sw", {"p1": UP})
    assert taken == {"p1": PortState(admin_up=True, vlan=1, poe=False)}
    assert journal.left_behind() == ({"sw": {"p2": PortState(vlan=6)}}, [])
    journal.forget("sw", ["p1", "p2"])
    assert pages(tmp_path / "j") == []


def test_ports_of_a_process_on_another_machine_are_not_restored(tmp_path: Path, lab: str) -> None:
    journal = Journal(lab, tmp_path / "j")
    left(journal, p1={"vlan": 5})
    changed(journal, pid=77, machine="00000000", host="otherhost")
    why = "because this machine cannot tell whether process 77 on otherhost still uses it"
    assert journal.left_behind() == ({}, [f"not restored: port p1 of switch sw, {why}"])
    # This machine before its last reboot.
    changed(journal, host=socket.gethostname(), boot="another")
    assert journal.left_behind() == ({"sw": {"p1": PortState(vlan=5)}}, [])


def test_a_broken_journal_file_is_ignored(tmp_path: Path, lab: str) -> None:
    folder = tmp_path / "j"
    journal = Journal(lab, folder)
    left(journal, p1={"vlan": 5})
    (page,) = pages(folder)
    page.write_text("{")
    (folder / "notes.json").write_text("mine")
    journal.record("sw", {"p1": UP})
    assert journal.original("sw", "p1") == UP
    assert journal.left_behind() == ({}, [])


def test_a_broken_file_is_named_on_one_line(tmp_path: Path, lab: str, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(lab, tmp_path)
    left(journal, p1={"vlan": 5})
    (page,) = pages(tmp_path)
    page.write_text('{"lab": {"a\\n::error::x": 1}}')
    assert journal.left_behind() == ({}, [])
    assert f"{page.name} cannot be read, so its switch ports are not restored: '1 validation error" in caplog.text
    assert {line.count("\n") for line in caplog.messages} == {0}
