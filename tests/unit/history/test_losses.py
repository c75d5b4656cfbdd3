"""Which losses are open: until recovery, a baseline at the lower level, or for a time an acknowledgement."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from pytest_pinet.config.baselines import AcceptedBaseline, Acknowledgement, Reviewed, SessionEntry
from pytest_pinet.errors import Where
from pytest_pinet.history.accepting import candidate
from pytest_pinet.history.losses import LossState, MetricLevel, level_of
from pytest_pinet.history.points import PointList, Trend
from pytest_pinet.history.trends import trend
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.result import RunRecord
from tests.support.half_year_history import DRIFT, REGRESSIONS, half_year
from tests.support.history_records import BEGINS, FIGURE, day, points_in, with_result

COUNT = 60


def on(number: int) -> date:
    return BEGINS.date() + timedelta(days=number)


TODAY = on(COUNT)


def at_levels(*levels: tuple[int, float], count: int = COUNT, noise: float = 1.0, begin: int = 0) -> list[RunRecord]:
    """Return a run a day. Each level (its first day, Mbit/s) lasts until the next."""
    chance = random.Random(3)
    return [
        day(
            number,
            [mbps for first, mbps in levels if first <= number][-1] + chance.gauss(0, noise),
            uname=f"Linux 6.12.{20 + number // 5}-v8+ #1",
        )
        for number in range(begin, count)
    ]


LOSS = at_levels((0, 940), (20, 895))


def trend_of(records: Sequence[RunRecord], reviewed: Reviewed | None = None) -> Trend:
    return trend(FIGURE, "virtual", points_in(records), reviewed or Reviewed())


def accepted(mbps: float, number: int, runs: int = 6) -> AcceptedBaseline:
    """Return a baseline of a day, with a run on each of the days before it."""
    values = tuple(Bitrate.mbps(mbps + shift % 3 - 1) for shift in range(runs))
    sessions = tuple(SessionEntry(on(number - runs + own), own + 1) for own in range(runs))
    return AcceptedBaseline(
        FIGURE, Bitrate.mbps(mbps), values, {}, on(number), "new", sessions=sessions, where=Where("f")
    )


def known(mbps: float, number: int, days: int = 30) -> Acknowledgement:
    until = on(number) + timedelta(days=days)
    return Acknowledgement(FIGURE, "Ann", until, "https://x.org/1", Bitrate.mbps(mbps), on(number), Where("f", 3))


def level(
    records: Sequence[RunRecord],
    baseline: AcceptedBaseline | None = None,
    acknowledgement: Acknowledgement | None = None,
    today: date = TODAY,
) -> MetricLevel:
    baselines = {} if baseline is None else {FIGURE: baseline}
    acknowledged = {} if acknowledgement is None else {FIGURE: acknowledgement}
    return level_of(trend_of(records, Reviewed("virtual", baselines, acknowledged)), today)


def state(*arguments: object, **more: object) -> LossState | None:
    found = level(*arguments, **more).loss  # type: ignore[arg-type]
    return found.state if found is not None else None


def test_a_loss_is_open_though_its_runs_pass() -> None:
    found = level(LOSS)
    assert found.loss is not None
    assert found.loss.is_open
    assert found.loss.since.date() == on(20)
    assert found.loss.relative == pytest.approx(-0.048, abs=0.002)
    assert found.loss.days(TODAY) == 40
    assert found.loss.change is not None
    assert found.loss.change.differs == ("kernel 6.12.23-v8+ -> 6.12.24-v8+",)
    assert found.best_month is not None
    assert found.best_month.month == "2026-09"
    assert found.since_baseline is None


def test_a_level_that_did_not_move_lost_nothing() -> None:
    found = level(at_levels((0, 940)))
    assert found.loss is None
    assert found.now == pytest.approx(940e6, rel=1e-3)
    assert found.since_best_month == 0
    assert found.best_month is not None
    assert found.best_month.month == "2026-10"


def test_there_is_no_best_month_before_two_months_can_be_compared() -> None:
    for runs in (1, 3, 20):
        assert level(at_levels((0, 940))[:runs]).best_month is None
    # The second month begins with run 31, and counts from its third run on.
    assert level(at_levels((0, 940))[:32]).best_month is None
    assert level(at_levels((0, 940))[:40]).best_month is not None


def test_a_loss_that_recovers_is_closed() -> None:
    assert state(at_levels((0, 940), (20, 895), (45, 941))) is None
    assert state(at_levels((0, 940), (20, 895), (45, 960))) is None


def test_a_loss_that_recovers_in_part_stays_open_from_its_beginning() -> None:
    found = level(at_levels((0, 940), (20, 880), (45, 915))).loss
    assert found is not None
    assert found.since.date() == on(20)
    assert found.relative == pytest.approx(-0.027, abs=0.003)


def test_a_baseline_at_the_lower_level_closes_a_loss() -> None:
    assert state(LOSS, accepted(895, 40)) is None
    assert level(LOSS, accepted(895, 40)).since_baseline == pytest.approx(0, abs=0.002)


def test_a_baseline_of_the_old_level_closes_nothing() -> None:
    assert state(LOSS, accepted(940, 10)) is LossState.OPEN
    # Accepted two days after the loss, when no change was found yet.
    assert state(LOSS, accepted(931, 22)) is LossState.OPEN
    assert level(LOSS, accepted(940, 10)).since_baseline == pytest.approx(-0.048, abs=0.002)


def test_a_baseline_of_another_lab_closes_nothing() -> None:
    reviewed = Reviewed("bench", {FIGURE: accepted(895, 40)}, {FIGURE: known(895, 40)})
    found = level_of(trend_of(LOSS, reviewed), TODAY)
    assert found.loss is not None
    assert found.loss.state is LossState.OPEN
    assert found.since_baseline is None


def test_a_further_loss_after_a_baseline_is_open() -> None:
    found = level(at_levels((0, 940), (15, 895), (40, 860)), accepted(895, 30)).loss
    assert found is not None
    assert found.since.date() == on(40)
    assert found.relative == pytest.approx(-0.039, abs=0.003)


def test_what_pinet_accept_writes_closes_the_loss() -> None:
    one = candidate(trend_of(LOSS), on(COUNT - 1), "new normal").baseline
    assert state(LOSS, one) is None
    assert state(at_levels((0, 940), (20, 895), count=90), one, today=on(90)) is None


def test_a_loss_that_is_older_than_all_known_runs_is_found_by_the_baseline() -> None:
    late = at_levels((0, 895), begin=40)
    assert state(late) is None
    found = level(late, accepted(940, 10)).loss
    assert found is not None
    assert found.change is None
    assert found.since.date() == on(40)
    assert found.before == 940e6
    assert state(late, accepted(896, 10)) is None


def test_an_acknowledged_loss_is_known_until_its_last_day() -> None:
    one = known(895, 30)
    found = level(LOSS, None, one).loss
    assert found is not None
    assert not found.is_open
    assert found.acknowledgement is one
    assert state(LOSS, None, one, today=one.until) is LossState.ACKNOWLEDGED
    assert state(LOSS, None, one, today=one.until + timedelta(days=1)) is LossState.EXPIRED


def test_an_acknowledgement_does_not_cover_a_later_loss() -> None:
    further = at_levels((0, 940), (15, 895), (40, 860))
    assert state(further, None, known(895, 30, 90)) is LossState.OPEN
    assert state(at_levels((0, 940), (15, 895), (30, 940), (45, 895)), None, known(895, 25, 90)) is LossState.OPEN
    assert state(at_levels((0, 860), begin=40), accepted(940, 10), known(895, 20, 90)) is LossState.OPEN


def test_an_acknowledgement_covers_a_loss_that_only_the_baseline_shows() -> None:
    assert state(at_levels((0, 895), begin=40), accepted(940, 10), known(895, 45)) is LossState.ACKNOWLEDGED


def test_values_of_other_parameters_are_no_loss() -> None:
    new = [with_result(run, parameters="other") for run in LOSS[20:]]
    assert state([*LOSS[:20], *new]) is None


def test_a_metric_without_a_value_has_no_level() -> None:
    assert level([]) == MetricLevel()
    assert level([day(0, 500, "invalid")]) == MetricLevel()


@pytest.mark.parametrize("seed", range(5))
def test_noise_around_a_fresh_baseline_is_no_loss(seed: int) -> None:
    chance = random.Random(seed)
    records = [day(number, 900 * (1 + chance.gauss(0, 0.03))) for number in range(COUNT)]
    one = candidate(trend_of(records), on(COUNT - 1), "first").baseline
    more = [day(number, 900 * (1 + chance.gauss(0, 0.03))) for number in range(COUNT, COUNT + 20)]
    assert state([*records, *more], one, today=on(COUNT + 20)) is None


def test_the_half_year_has_its_three_regressions_and_its_drift_open() -> None:
    from pytest_pinet.history.records import points_of

    points: dict[str, PointList] = {}
    moved = {*(planted.figure for planted in REGRESSIONS), DRIFT[0], "pi5:onboard/pair/tcp-P1-tx"}
    for record in half_year(1):
        for point in points_of(record)[1]:
            if point.figure in moved:
                points.setdefault(point.figure, PointList()).append(point)
    losses = {
        figure: level_of(trend(figure, "half-year", own), date(2026, 11, 16)).loss for figure, own in points.items()
    }
    assert losses.pop("pi5:onboard/pair/tcp-P1-tx") is None
    drifting = losses.pop(DRIFT[0])
    assert drifting is not None
    assert drifting.change is not None
    assert drifting.change.gradual
    # The drift began on 2026-06-19; a loss of 1 % takes 23 days.
    assert date(2026, 7, 1) < drifting.since.date() < date(2026, 7, 25)
    for planted in REGRESSIONS:
        loss = losses[planted.figure]
        assert loss is not None
        assert loss.is_open
        assert loss.since.date() == date(2026, 5, 20) + timedelta(days=planted.at)
        assert loss.relative == pytest.approx(planted.size, abs=0.01)
