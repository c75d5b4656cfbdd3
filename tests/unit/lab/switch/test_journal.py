"""The crash journal: written before a change, removed after it, and who owns each entry."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from pytest_pinet.lab.labgrid.identity import machine, start_time
from pytest_pinet.lab.switch.journal import Journal, journal_folder
from pytest_pinet.lab.switch.switchport import PortState

UP = PortState(admin_up=True, vlan=1)


@pytest.fixture
def lab(tmp_path: Path) -> str:
    return str(tmp_path / "lab.yaml")


def pages(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def dead_page(folder: Path, lab: str, **ports: dict[str, object]) -> Path:
    """Return the journal page of a dead process whose pid another process now has."""
    page = folder / f"{os.getpid()}-1-{machine()}.json"
    folder.mkdir(exist_ok=True)
    page.write_text(json.dumps({"host": "here", "boot": "b", "labs": {lab: {"sw": ports}}}))
    return page


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
    assert page.name == f"{os.getpid()}-{start_time(os.getpid())}-{machine()}.json"
    assert json.loads(page.read_text())["labs"] == {
        lab: {
            "sw": {
                "p1": {"admin_up": True, "vlan": 1},
                "p2": {"poe": False},
            }
        }
    }
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
    folder = tmp_path / "j"
    dead_page(folder, lab, p1={"admin_up": False, "vlan": 5, "poe": None})
    init = folder / f"1-{start_time(1)}-{machine()}.json"
    init.write_text(json.dumps({"labs": {lab: {"sw": {"p2": {"vlan": 6}}}}}))
    journal = Journal(lab, folder)
    journal.record("sw", {"p3": UP})
    assert journal.left_behind() == ({"sw": {"p1": PortState(admin_up=False, vlan=5)}}, [])
    # The port's original state, regardless of who moved it.
    assert journal.original("sw", "p2") == PortState(vlan=6)


def test_a_port_that_a_live_process_took_over_is_not_left_behind(tmp_path: Path, lab: str) -> None:
    folder = tmp_path / "j"
    dead_page(folder, lab, p1={"vlan": 5}, p2={"vlan": 6}, p3={"vlan": 7}, p4={"vlan": 8})
    init = folder / f"1-{start_time(1)}-{machine()}.json"
    init.write_text(json.dumps({"host": "here", "labs": {lab: {"sw": {"p1": {"vlan": 5}}}}}))
    unseen = folder / "77-1-00000000.json"
    unseen.write_text(json.dumps({"host": "otherhost", "labs": {lab: {"sw": {"p2": {"vlan": 6}}}}}))
    journal = Journal(lab, folder)
    journal.record("sw", {"p3": UP})
    left, sentences = journal.left_behind()
    assert left == {"sw": {"p4": PortState(vlan=8)}}
    assert sorted(sentences) == [
        "not restored: port p1 of switch sw, because process 1 on here uses it",
        f"not restored: port p3 of switch sw, because process {os.getpid()} on {socket.gethostname()} uses it",
        "not restored: sw/p2, because this machine cannot tell whether process 77 on otherhost still uses it",
    ]


def test_ports_of_a_process_on_another_machine_are_not_restored(tmp_path: Path, lab: str) -> None:
    folder = tmp_path / "j"
    page = dead_page(folder, lab, p1={"vlan": 5})
    page.rename(folder / "77-1-00000000.json")
    content = json.loads((folder / "77-1-00000000.json").read_text())
    (folder / "77-1-00000000.json").write_text(json.dumps({**content, "host": "otherhost"}))
    sentences = ["not restored: sw/p1, because this machine cannot tell whether process 77 on otherhost still uses it"]
    assert Journal(lab, folder).left_behind() == ({}, sentences)
    # This machine before its last reboot.
    (folder / "77-1-00000000.json").write_text(json.dumps({**content, "host": socket.gethostname()}))
    assert Journal(lab, folder).left_behind() == ({"sw": {"p1": PortState(vlan=5)}}, [])


def test_restoring_a_port_removes_it_from_the_journal_of_a_dead_process(tmp_path: Path, lab: str) -> None:
    folder = tmp_path / "j"
    page = dead_page(folder, lab, p1={"vlan": 5, "admin_up": True, "poe": False}, p2={"vlan": 6})
    journal = Journal(lab, folder)
    journal.record("sw", {"p1": PortState(admin_up=True, vlan=5)})
    journal.forget("sw", ["p1"])
    # We did not change its power, so we do not restore it.
    assert journal.left_behind()[0] == {"sw": {"p1": PortState(poe=False), "p2": PortState(vlan=6)}}
    journal.forget("sw", ["p1", "p2"])
    assert not page.exists()


def test_a_broken_journal_file_is_ignored(tmp_path: Path, lab: str) -> None:
    folder = tmp_path / "j"
    dead_page(folder, lab).write_text("{")
    (folder / "notes.json").write_text("mine")
    journal = Journal(lab, folder)
    journal.record("sw", {"p1": UP})
    assert journal.original("sw", "p1") == UP
    assert journal.left_behind() == ({}, [])


def test_a_broken_file_is_named_on_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "999999-1-0.json").write_text('{"host": {"a\\n::error::x": 1}}')
    assert Journal("/lab.yaml", tmp_path).left_behind() == ({}, [])
    assert "999999-1-0.json cannot be read, so its switch ports are not restored: '1 validation error" in caplog.text
    assert {line.count("\n") for line in caplog.messages} == {0}
