"""Events that are good or bad: when the measuring ends, what the result says, and two builds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_pinet.ab.series import EventSeries
from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.shares import ShareRule
from pytest_pinet.judge.turns import Side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure import figures
from pytest_pinet.measure.boots import CARRIER
from pytest_pinet.measure.events import Counted
from pytest_pinet.model.figures import Sample
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.traffic.tool import Watch
from tests.support import link_stand_in


@dataclass(frozen=True)
class Scripted(Counted):
    """Boots with these outcomes: the reason of each bad one, and nothing for a good one; the last one repeats."""

    script: Sequence[str]
    excluded: Sequence[int] = ()
    made: list[int] = field(default_factory=list)

    noun = "boots"
    values = (CARRIER,)
    name = "boots-scripted"
    seconds = 1.0

    def why_bad(self, event: Sample) -> str:
        return "".join(event.notes)

    def once(self, link: Link, watch: Watch | None) -> Sample:
        number = len(self.made)
        self.made.append(number)
        why = self.script[min(number, len(self.script) - 1)]
        notes = (why,) if why else ()
        return Sample({CARRIER.name: 2.5}, "raw", "too slow to see" if number in self.excluded else "", notes)


def counted(script: Sequence[str], excluded: Sequence[int] = ()) -> Scripted:
    return Scripted(script, excluded, rule=ShareRule.passing_after(33, 0.02))


def measure(link: Link, what: Counted, raw: dict[str, str]) -> ResultRecord:
    return figures.measure(link, what, GatePlan((), PROFILES["fast"]), lambda *_: Reference(), raw)


@pytest.fixture
def link(tmp_path: Path) -> Link:
    return link_stand_in.link(tmp_path)


def measured(link: Link, what: Counted) -> ResultRecord:
    raw: dict[str, str] = {}
    found = measure(link, what, raw)
    assert found.figures is not None
    assert len(raw) == len(found.figures["bad_boots"].values)
    return found


def test_clean_boots_pass(link: Link) -> None:
    found = measured(link, counted([""]))
    assert found.verdict is Verdict.PASS
    assert found.figures is not None
    assert len(found.figures["bad_boots"].values) == 33
    assert found.figures["boot_to_carrier"].value == 2.5


def test_bad_boots_fail_and_each_one_is_named(link: Link) -> None:
    found = measured(link, counted(["no link", "", "no boot", "slow ping"]))
    assert found.verdict is Verdict.FAIL
    assert "bad_boots" in found.message or "boots were bad" in found.message
    assert "3 of 4 boots were bad (75 %): at most 2.0 % may be bad, and a share of 15 % is found" in found.message
    assert [note for note in found.notes if note.startswith("boot ")] == [
        "boot 1 is bad: no link",
        "boot 3 is bad: no boot",
        "boot 4 is bad: slow ping",
    ]


def test_a_lab_without_valid_events_ends(link: Link) -> None:
    raw: dict[str, str] = {}
    found = measure(link, counted([""], excluded=range(5)), raw)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert len(raw) == 5


def series(link: Link, a: Sequence[str], b: Sequence[str]) -> EventSeries:
    """Return the series after the turns A, B, B, A."""
    found = EventSeries(counted([""]), link)
    for side, script in ((Side.A, a), (Side.B, b), (Side.B, b), (Side.A, a)):
        wanted = found.wanted(side)
        if not found.decided and wanted is not None:
            found.records[side] = measure(link, replace(counted(script), decide=wanted.decide), {})
    return found


def test_only_build_b_boots_while_it_is_good(link: Link) -> None:
    found = series(link, [""], [""])
    assert list(found.records) == [Side.B]
    assert found.record().verdict is Verdict.PASS


def test_a_lottery_of_build_b_is_a_regression(link: Link) -> None:
    found = series(link, [""], ["no link", "", ""] * 40)
    assert found.decided
    record = found.record()
    assert record.verdict is Verdict.FAIL
    assert "of the known-good build, 0 of " in record.message
    assert found.events(Side.A).count >= 33


def test_a_lottery_of_both_builds_is_inconclusive(link: Link) -> None:
    found = series(link, ["no link"], ["no link"])
    assert found.record().verdict is Verdict.INCONCLUSIVE


def test_before_any_boot_nothing_is_wrong(link: Link) -> None:
    found = EventSeries(counted([""]), link)
    assert found.record().verdict is Verdict.PASS
    assert not found.decided
    assert found.wanted(Side.A) is None
