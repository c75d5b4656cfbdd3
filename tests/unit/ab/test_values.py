"""Values beside goodput in alternating boots of two builds: each has its own spread, and lower times are better."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.ab.records import as_layout
from pytest_pinet.ab.series import Rules, ValueSeries
from pytest_pinet.config.calibration import ReferenceData
from pytest_pinet.judge.costs import COST_TURNS
from pytest_pinet.judge.difference import LAYOUT
from pytest_pinet.judge.profile import tolerance_of
from pytest_pinet.judge.turns import Side, side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.figures import Probe
from pytest_pinet.model.figures import P90, TRANSACTIONS, Sample
from pytest_pinet.model.judgement import FigureJudgement, MeasurementJudgement
from pytest_pinet.model.limits import Limit, Metric, Origin, parse_arguments
from pytest_pinet.model.metric_key import CombinationId, MetricKey
from pytest_pinet.model.record.result import CombinationRecord, ResultRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.change_head import _entries
from pytest_pinet.report.result_record import result_record
from tests.support.change_records import change_run

KEY = MetricKey(CombinationId("pi4b", "onboard", "pair"), Traffic(Direction.TX), Direction.TX)


@dataclass(frozen=True)
class Scripted(Probe):
    """Stands for a probe of two values."""

    name = "latency-x"
    figures = (TRANSACTIONS, P90)
    seconds = 5.0

    def once(self, link: Link, watch: object) -> Sample:
        raise NotImplementedError


def record(rate: list[float], time: list[float]) -> ResultRecord:
    figures = {one.name: FigureJudgement.without_limit(one, own) for one, own in ((TRANSACTIONS, rate), (P90, time))}
    here = CombinationRecord(id="pi4b:onboard/pair", traffic="latency-x")
    return result_record(here, "latency-x", MeasurementJudgement(Verdict.PASS, ""), figures=figures)


def series_of(
    rate_of_b: float, time_of_b: float, boots: int = 16, noise: float = 0.02, limits: Sequence[Limit] = ()
) -> ValueSeries:
    """Return a series whose B has these shares of the values of A, until it is decided."""
    found = ValueSeries(Scripted(), limits, KEY, Rules(ReferenceData(), 0.01, lambda: 2, boots))
    chance = random.Random(5)
    for at in range(boots):
        which = side(at)
        factors = (rate_of_b, time_of_b) if which is Side.B else (1.0, 1.0)
        own = [
            [middle * factor * chance.lognormvariate(0, noise) for _ in range(3)]
            for middle, factor in zip((8000.0, 0.002), factors, strict=True)
        ]
        found.add(which, 60.0 * at, record(*own))
        if found.decided:
            break
    return found


def test_the_notes_of_all_turns_are_told() -> None:
    found = series_of(1.0, 1.0)
    turn, at_s, one = found.turns[0]
    found.turns[0] = turn, at_s, one.replace(notes=("a turn began its traffic too hot",))
    assert found.record().notes == ("a turn began its traffic too hot",)


def test_an_unchanged_build_passes_every_value() -> None:
    found = series_of(1.0, 1.0).record()
    assert found.verdict is Verdict.PASS
    assert {one.verdict for one in (found.figures or {}).values()} == {Verdict.PASS}


def test_a_time_that_rises_is_worse_and_a_rate_that_rises_is_better() -> None:
    worse = series_of(1.0, 1.5).record()
    assert worse.verdict is Verdict.FAIL
    assert worse.figures is not None
    reason = worse.figures["p90"].reason
    assert reason.startswith("p90 2")
    assert " ms with A, 2.9" in reason
    assert "worse, certain after" in reason
    assert " % above A (+" in reason
    assert worse.message.startswith("pi4b:onboard/pair p90 2")
    better = series_of(1.5, 1.0).record().figures
    assert better is not None
    assert better["transactions"].verdict is Verdict.IMPROVED


def test_a_rate_that_falls_is_a_regression_of_the_change_under_the_id_of_the_value() -> None:
    found = series_of(0.7, 1.0).record()
    entries = {entry.direction: entry for entry in _entries(found, accepted=False)}
    assert entries["transactions"].verdict is Verdict.FAIL
    assert entries["transactions"].id == "pi4b:onboard/pair/latency-x"
    assert entries["p90"].verdict is not Verdict.FAIL


def test_a_rate_that_falls_by_the_layout_of_the_code_is_undecided() -> None:
    found = as_layout(series_of(0.7, 1.0).record())
    rate, time = (found.figures or {}).values()
    assert (found.verdict, rate.verdict, time.verdict) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE, Verdict.PASS)
    assert rate.reason.startswith(LAYOUT)
    head = change_run([found]).change
    assert head is not None
    assert (head.exit, head.sentence.startswith(f"No decision on new: {LAYOUT} 1 of ")) == (3, True)


def test_values_without_any_connection_that_counts_are_undecided() -> None:
    found = ValueSeries(Scripted(), (), KEY, Rules(ReferenceData(), 0.01, lambda: 1, 2))
    found.add(Side.A, 0.0, record([1.0], [1.0]).replace(figures={}))
    found.give_up()
    assert found.record().verdict is Verdict.INCONCLUSIVE


def test_a_value_that_the_first_four_turns_lack_is_skipped() -> None:
    found = ValueSeries(Scripted(), (), KEY, Rules(ReferenceData(), 0.01, lambda: 1, 16))
    empty = FigureJudgement("/s", "up", None, (), Verdict.INCONCLUSIVE, "no connection gave a value: the sender limits")
    for at in range(4):
        assert not found.decided
        found.add(side(at), 60.0 * at, record([1.0], [1.0]).replace(figures={"transactions": empty, "p90": empty}))
    assert found.decided
    found.give_up()
    figure = (found.record().figures or {})["transactions"]
    assert found.record().verdict is Verdict.SKIPPED
    assert (figure.verdict, figure.reason) == (Verdict.SKIPPED, f"not measured: {empty.reason}")


def test_a_value_that_one_of_the_first_turns_has_is_measured_further() -> None:
    found = ValueSeries(Scripted(), (), KEY, Rules(ReferenceData(), 0.01, lambda: 1, 16))
    for at in range(4):
        found.add(side(at), 60.0 * at, record([1.0] if at == 3 else [], [1.0]))
    assert not found.decided


def test_the_most_specific_tolerance_counts() -> None:
    marked = parse_arguments({"tolerance": "20%", "cost_tolerance": "30%"}, Origin.MARKER)
    assert tolerance_of([], KEY, 0.1) == 0.1
    assert tolerance_of([*parse_arguments({"tolerance": "3%"}, Origin.LAB_FILE), *marked], KEY, 0.1) == 0.2
    assert tolerance_of(marked, KEY, 0.1, Metric.COST_TOLERANCE) == 0.3


def test_only_a_tolerance_of_the_call_or_the_marker_counts_for_a_value() -> None:
    for origin, verdict in ((Origin.LAB_FILE, Verdict.FAIL), (Origin.MARKER, Verdict.PASS)):
        limits = parse_arguments({"tolerance": "45%"}, origin)
        assert series_of(0.8, 1.0, limits=limits).record().verdict is verdict


LIMIT = parse_arguments({"p90": "2.5 ms"}, Origin.CALL)


def test_a_limit_that_only_the_new_build_misses_fails_before_the_difference_is_certain() -> None:
    found = series_of(1.0, 2.0, noise=0.4, limits=LIMIT)
    assert [one[0] for one in found.turns] == [Side.A, Side.B, Side.B, Side.A]
    figure = (found.record().figures or {})["p90"]
    assert figure.verdict is Verdict.FAIL
    assert figure.reason.endswith("; the limit was missed in 2 of 2 turns of B, and in 0 of 2 of A")
    assert figure.limit is not None
    assert figure.limit.words == "2.5 ms"


def test_a_value_that_scatters_is_not_undecided_while_its_limit_holds() -> None:
    both = [*parse_arguments({"p90": "20 ms", "transactions": "1/s"}, Origin.CALL)]
    assert series_of(1.0, 1.0, noise=0.6).record().verdict is Verdict.INCONCLUSIVE
    found = series_of(1.0, 1.0, noise=0.6, limits=both)
    assert found.record().verdict is Verdict.PASS
    assert len(found.turns) <= COST_TURNS


def test_a_limit_far_away_hides_no_worse_build() -> None:
    limits = parse_arguments({"p90": "20 ms"}, Origin.CALL)
    assert series_of(1.0, 1.5, limits=limits).record().verdict is Verdict.FAIL
