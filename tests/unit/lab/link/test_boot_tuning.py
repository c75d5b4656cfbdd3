"""When a node is booted for its settings, and the errors if the settings are not active afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from pytest_pinet.errors import ConsoleError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.execution.trace import Recorder
from pytest_pinet.lab.link.boot_tuning import boot_tuned
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.tuning import SettingOutcome, Tuning
from pytest_pinet.tuning import booting
from pytest_pinet.tuning.registry import read_tuning
from pytest_pinet.tuning.setting import NoKnob, SettingPlace, SettingReading
from tests.support import link_stand_in
from tests.support.local_shell import LocalShell

FAST = read_tuning({"arm_freq": 2000, "mtu": 9000})


class Session:
    """A node that only stores its boot settings."""

    def __init__(self, name: str) -> None:
        self.shell: Shell = LocalShell(name)
        self.boot_tuning = Tuning()
        self.boot_before: dict[str, dict[str, object]] = {}
        self.reset_due = False
        self.why_not = ""

    def boot_with(self, tuning: Tuning) -> None:
        if self.why_not:
            raise NoKnob(self.why_not)
        self.reset_due |= tuning != self.boot_tuning
        self.boot_tuning = tuning


class Bench:
    """A pair of nodes. ``boots`` counts the boots of the nodes that need one."""

    def __init__(self, folder: Path) -> None:
        self.combination = link_stand_in.link(folder).combination
        self.sessions = {name: Session(name) for name in ("one", "two")}
        self.boots = 0

    def boot(self) -> None:
        self.boots += 1
        for session in self.sessions.values():
            session.reset_due = False

    def open(self, tuning: Tuning, boot: Callable[[], object] | None = None) -> list[tuple[str, SettingOutcome]]:
        asked: Combination = replace(self.combination, tuning=tuning)
        sessions = cast("dict[str, NodeSession]", self.sessions)
        return [(one.name, one.outcome) for one in boot_tuned(asked, sessions, boot or self.boot)]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(booting, "found", lambda *_: {})
    return Bench(tmp_path)


def test_tests_in_a_row_share_a_boot_and_the_next_without_takes_another(bench: Bench) -> None:
    assert bench.open(Tuning()) == []
    assert bench.boots == 0
    for _ in range(2):
        (told,) = bench.open(FAST)
        assert told[0] == "arm_freq"
        assert (bench.boots, bench.sessions["one"].boot_tuning.key) == (1, "arm_freq=2000")
    assert bench.open(Tuning()) == []
    assert bench.boots == 2
    assert not any(session.boot_tuning for session in bench.sessions.values())


def test_what_was_before_the_boot_is_asked_of_each_nic_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def found(place: SettingPlace, _: Tuning) -> dict[str, SettingReading]:
        asked.append(place.device)
        return {}

    monkeypatch.setattr(booting, "found", found)
    bench = Bench(tmp_path)
    bench.open(FAST)
    (node,) = {end.node.name: end.node for end in bench.combination.ends if end.node.name == "one"}.values()
    assert asked == [interface.device for interface in node.interfaces]
    assert list(bench.sessions["one"].boot_before) == asked


def test_only_the_device_under_test_is_booted_so(bench: Bench) -> None:
    bench.sessions["two"].boot_tuning = read_tuning({"arm_freq": 1500})
    bench.open(FAST)
    assert not bench.sessions["two"].boot_tuning
    assert bench.boots == 1


def test_what_is_deployed_and_put_back_is_a_step(bench: Bench) -> None:
    recorder = Recorder()
    recorder.start()
    for tuning in (Tuning(), FAST, FAST, Tuning()):
        bench.open(tuning)
    assert [step.title for step in recorder.stop()] == ["deploy arm_freq=2000 to one", "put back the boot files of one"]


def test_a_node_without_boot_files_is_not_booted(bench: Bench) -> None:
    bench.sessions["one"].why_not = "one has no config.txt"
    assert bench.open(FAST) == [("arm_freq", SettingOutcome.UNSUPPORTED)]
    assert bench.boots == 0


def test_a_node_that_does_not_come_up_says_with_what(bench: Bench) -> None:
    def hang() -> None:
        raise ConsoleError("one does not answer on its serial console", "look at the console")

    with pytest.raises(ConsoleError) as error:
        bench.open(FAST, hang)
    assert str(error.value) == (
        "one does not answer on its serial console (booted with arm_freq=2000)\n"
        "  -> put the card of one right: beside its boot files are the originals, *.pytest-pinet"
    )
