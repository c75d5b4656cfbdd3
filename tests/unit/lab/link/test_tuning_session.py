"""The handling of settings that apply to a part of a test. Real settings are tested on the virtual lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.execution.trace import Recorder
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import tuning_session
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.tuning import SettingOutcome, Tuned, Tuning
from pytest_pinet.tuning import change
from pytest_pinet.tuning.registry import read_tuning
from pytest_pinet.tuning.setting import Setting, SettingPlace
from tests.support import link_stand_in

APPLY = tuning_session.apply
RPS = read_tuning({"rps": "all"})


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


def test_a_tuned_link_is_another_combination_and_comes_back(tmp_path: Path, undone: list[str]) -> None:
    link = link_stand_in.link(tmp_path)
    before = link.id
    with tuning_session.tuned(link, RPS, pytest.fail):
        assert link.id == f"{before}/rps=all"
    assert link.id == before
    assert undone == ["undone", "settled"]


def test_what_cannot_be_taken_back_ends_the_test_that_would_measure_on(tmp_path: Path, undone: list[str]) -> None:
    undone.append("stuck")
    told: list[str] = []
    with (
        pytest.raises(LabError, match="could not undo rps=all: one refused: Device or resource busy\n  -> look at"),
        tuning_session.tuned(link_stand_in.link(tmp_path), RPS, told.append),
    ):
        pass
    assert told == ["could not undo rps=all: one refused: Device or resource busy"]


def test_it_does_not_hide_how_the_test_ended(tmp_path: Path, undone: list[str]) -> None:
    undone.append("stuck")
    told: list[str] = []
    with pytest.raises(ZeroDivisionError), tuning_session.tuned(link_stand_in.link(tmp_path), RPS, told.append):
        raise ZeroDivisionError
    assert len(told) == 1


def test_what_is_set_anew_is_not_in_force_twice(
    tmp_path: Path, undone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(setting: Setting, place: SettingPlace, asked: str, _: object) -> Tuned:
        return Tuned(place.end, setting.name, asked, "", asked, SettingOutcome.APPLIED)

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
def test_each_setting_is_a_step_and_so_is_its_return(
    tmp_path: Path, undone: list[str], monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    def taken(setting: Setting, place: SettingPlace, asked: str, register: change.Register) -> Tuned:
        def back() -> None:
            if refusal:
                raise LabError(refusal)

        register(f"{setting.name}={asked} of {place.end}", back, place.node)
        return Tuned(place.end, setting.name, asked, "", asked, SettingOutcome.APPLIED)

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
    assert list(found)[len(tuning) :] == [f"take back {what}" for what in reversed(tuning)]
    assert {error for title, error in found.items() if title.startswith("take back")} == {refusal}
