"""Settings for a part of a test, and settings that boot a node. Real settings are tested on the virtual lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.execution.trace import Recorder
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import tuning_session
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.tuning_session import boot_tuned
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.tuning import SettingOutcome, Tuned, Tuning
from pytest_pinet.tuning import boot_settings, change
from pytest_pinet.tuning.registry import read_tuning
from pytest_pinet.tuning.setting import NoKnob, Setting, SettingPlace, SettingReading
from tests.support import link_stand_in
from tests.support.local_shell import LocalShell

APPLY = tuning_session.apply
RPS = read_tuning({"rps": "all"})
FAST = read_tuning({"arm_freq": 2000, "mtu": 9000})


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Store settings instead of applying them. The setting ``stuck`` cannot be undone."""
    log: list[str] = []

    def apply(_: Link, tuning: Tuning, undo: UndoStack) -> tuple[Tuned, ...]:
        def back() -> None:
            if "stuck" in log:
                raise LabError("one refused: Device or resource busy")
            log.append("undone")

        undo.add(tuning.key, back, "one")
        return ()

    monkeypatch.setattr(tuning_session, "apply", apply)
    monkeypatch.setattr(tuning_session, "settle", lambda *_, **__: log.append("settled"))
    return log


def test_a_tuned_link_has_another_combination_until_the_block_ends(tmp_path: Path, undone: list[str]) -> None:
    link = link_stand_in.link(tmp_path)
    before = link.id
    with tuning_session.tuned(link, RPS, pytest.fail):
        assert link.id == f"{before}/rps=all"
    assert link.id == before
    assert undone == ["undone", "settled"]


def test_a_setting_that_cannot_be_undone_ends_the_test(tmp_path: Path, undone: list[str]) -> None:
    undone.append("stuck")
    failures: list[str] = []
    with (
        pytest.raises(LabError, match="could not undo rps=all: one refused: Device or resource busy\n  -> look at"),
        tuning_session.tuned(link_stand_in.link(tmp_path), RPS, failures.append),
    ):
        pass
    assert failures == ["could not undo rps=all: one refused: Device or resource busy"]


def test_a_failed_undo_does_not_hide_the_error_of_the_test(tmp_path: Path, undone: list[str]) -> None:
    undone.append("stuck")
    failures: list[str] = []
    with pytest.raises(ZeroDivisionError), tuning_session.tuned(link_stand_in.link(tmp_path), RPS, failures.append):
        raise ZeroDivisionError
    assert len(failures) == 1


def test_a_setting_that_is_changed_again_is_listed_once(
    tmp_path: Path, undone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(setting: Setting, place: SettingPlace, value: str, _: object) -> Tuned:
        return Tuned(place.end, setting.name, value, "", value, SettingOutcome.APPLIED)

    monkeypatch.setattr(change, "apply", taken)
    monkeypatch.setattr(change, "check_effect", lambda *known: known[-1])
    link = link_stand_in.link(tmp_path)
    for settings in ({"mtu": 9000, "tso": False}, {"mtu": 4000}):
        APPLY(link, read_tuning(settings), UndoStack())
    in_force = [(one.name, one.asked, one.end) for one in link.tunings]
    assert in_force == [("tso", "off", "one:onboard"), ("mtu", "4000", "one:onboard"), ("mtu", "4000", "two:onboard")]
    # All attempts are recorded.
    assert [one.asked for one in link.tried] == ["9000", "9000", "off", "4000", "4000"]


@pytest.mark.parametrize("refusal", ["", "one refused: Device or resource busy"])
def test_each_setting_and_each_undo_is_a_step(
    tmp_path: Path, undone: list[str], monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    def taken(setting: Setting, place: SettingPlace, value: str, register: change.Register) -> Tuned:
        def back() -> None:
            if refusal:
                raise LabError(refusal)

        register(f"{setting.name}={value} of {place.end}", back, place.node)
        return Tuned(place.end, setting.name, value, "", value, SettingOutcome.APPLIED)

    monkeypatch.setattr(change, "apply", taken)
    monkeypatch.setattr(change, "check_effect", lambda *known: known[-1])
    recorder, undo = Recorder(), UndoStack()
    recorder.start()
    APPLY(link_stand_in.link(tmp_path), read_tuning({"rps": "all", "mtu": 4000}), undo)
    undo.close()
    found = {step.title: step.error for step in recorder.stop()}
    ends = ("one:onboard", "two:onboard")
    settings = [*(f"mtu=4000 of {end}" for end in ends), "rps=all of one:onboard"]
    tuning = [title.removeprefix("tune ") for title in found if title.startswith("tune ")]
    assert sorted(tuning) == settings
    assert list(found)[len(tuning) :] == [f"undo {what}" for what in reversed(tuning)]
    assert {error for title, error in found.items() if title.startswith("undo")} == {refusal}


class Session:
    """A node that only stores its boot settings, and counts its boots."""

    def __init__(self, name: str) -> None:
        self.shell: Shell = LocalShell(name)
        self.boot_tuning = Tuning()
        self.node = SimpleNamespace(name=name)
        self.boot_before: Mapping[str, object] = {}
        self.boots = 0
        self.why_not = ""

    def boot_with(self, tuning: Tuning, before: Mapping[str, object] | None = None) -> None:
        if self.why_not:
            raise NoKnob(self.why_not)
        self.boot_before = before or {}
        self.boots += tuning != self.boot_tuning
        self.boot_tuning = tuning


class Bench:
    """A pair of nodes. ``boots`` are their boots."""

    def __init__(self, folder: Path) -> None:
        self.combination = link_stand_in.link(folder).combination
        self.sessions = {name: Session(name) for name in ("one", "two")}

    @property
    def boots(self) -> int:
        return sum(session.boots for session in self.sessions.values())

    def open(self, tuning: Tuning) -> list[tuple[str, SettingOutcome]]:
        wanted: Combination = replace(self.combination, tuning=tuning)
        sessions = cast("dict[str, NodeSession]", self.sessions)
        return [(one.name, one.outcome) for one in boot_tuned(wanted, sessions)]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(boot_settings, "found", lambda *_: {})
    return Bench(tmp_path)


def test_consecutive_tests_share_a_boot_and_the_next_one_without_it_reboots(bench: Bench) -> None:
    assert bench.open(Tuning()) == []
    assert bench.boots == 0
    for _ in range(2):
        (outcome,) = bench.open(FAST)
        assert outcome[0] == "arm_freq"
        assert (bench.boots, bench.sessions["one"].boot_tuning.key) == (1, "arm_freq=2000")
    assert bench.open(Tuning()) == []
    assert bench.boots == 2
    assert not any(session.boot_tuning for session in bench.sessions.values())


def test_values_before_the_boot_are_read_from_each_nic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = []

    def found(place: SettingPlace, _: Tuning) -> dict[str, SettingReading]:
        devices.append(place.device)
        return {}

    monkeypatch.setattr(boot_settings, "found", found)
    bench = Bench(tmp_path)
    bench.open(FAST)
    (node,) = {end.node.name: end.node for end in bench.combination.ends if end.node.name == "one"}.values()
    assert devices == [interface.device for interface in node.interfaces]
    assert list(bench.sessions["one"].boot_before) == [interface.name for interface in node.interfaces]


def test_only_the_device_under_test_is_booted_with_a_boot_tuning(bench: Bench) -> None:
    bench.sessions["two"].boot_tuning = read_tuning({"arm_freq": 1500})
    bench.open(FAST)
    assert not bench.sessions["two"].boot_tuning
    assert [session.boots for session in bench.sessions.values()] == [1, 1]


def test_boots_with_and_without_a_boot_tuning_are_steps(bench: Bench) -> None:
    recorder = Recorder()
    recorder.start()
    for tuning in (Tuning(), FAST, FAST, Tuning()):
        bench.open(tuning)
    assert [step.title for step in recorder.stop()] == [
        "boot one with arm_freq=2000",
        "boot one without its boot tuning",
    ]


def test_a_node_that_cannot_boot_for_a_trial_is_not_booted(bench: Bench) -> None:
    bench.sessions["one"].why_not = "one has no config.txt"
    assert bench.open(FAST) == [("arm_freq", SettingOutcome.UNSUPPORTED)]
    assert bench.boots == 0
