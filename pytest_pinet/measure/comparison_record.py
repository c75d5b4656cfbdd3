"""The result record of the gate's ``compare`` in a test: state B is judged, and state A is its limit.

Runs with ``--pinet-build`` that alternate two builds have their own records (``ab.records``).
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.history.settings import Settings, settings_differences
from pytest_pinet.judge.difference import AgainstA, judge_against_a
from pytest_pinet.judge.flow_bounds import Bounds
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.link_result import link_result
from pytest_pinet.model.connection import MeasuredFlow
from pytest_pinet.model.judgement import DirectionJudgement, MeasurementJudgement
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.change import ComparisonRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.sentences import tuning_notes


def compared_record(
    link: Link, traffic: Traffic, found: ComparisonRecord, settings: Mapping[Side, Settings]
) -> ResultRecord:
    """Return the result of a comparison: values of state B, limits from state A, and the comparison itself.

    ``settings`` has the settings of all ends in each state. The caller fills in ``test``, ``files`` and ``rerun``.
    """
    differs = settings_differences(settings[Side.A], settings[Side.B])
    notes = [f"{found.a} and {found.b} differ: {'; '.join(differs)}"] if differs else []
    ways = [Direction(way) for way in found.directions]
    directions = {way: _direction_of_b(link, traffic, way, found) for way in ways}
    own = MeasurementJudgement(Verdict.PASS, "", directions)
    judged = judge_against_a(own, {way: _against_a(way, found) for way in ways})
    record = link_result(
        link,
        traffic,
        judged,
        link.tried,
        build=found.builds.get("B", {}),
        notes=[*notes, *_events(found), *tuning_notes(link.tried)],
        started=found.started,
        seconds=found.seconds,
        traffic_seconds=found.traffic_seconds,
        comparison=found,
        settings=settings[Side.B],
    )
    of_b = {
        way: one.replace(connections=[turn.connections[way] for turn in found.turns if turn.side == "B"])
        for way, one in record.directions.items()
    }
    return record.replace(directions=of_b)


def _events(found: ComparisonRecord) -> list[str]:
    each = (event for turn in found.turns for one in turn.connections.values() for event in one.events)
    return [event.text for event in each]


def _against_a(way: Direction, found: ComparisonRecord) -> AgainstA:
    side = found.directions[str(way)]
    low, high = side.interval or (None, None)
    return AgainstA(
        found.a,
        Bitrate(side.a_bps),
        Bitrate(side.b_bps),
        found.tolerance,
        side.verdict,
        f"{found.b} against {found.a}: {side.why}",
        side.why,
        None if low is None or high is None else (low, high),
    )


def _direction_of_b(link: Link, traffic: Traffic, way: Direction, found: ComparisonRecord) -> DirectionJudgement:
    """Return the values of state B in one direction, not yet judged."""
    (run,) = link.combination.topology.runs(traffic.direction)
    ends = (run.a, run.b) if way is Direction.TX else (run.b, run.a)
    flow = Flow(way, ())
    oracle = Bounds(link.facts, traffic, [MeasuredFlow(*ends, run, way, flow)]).alone[0]
    goodput = Bitrate(found.directions[str(way)].b_bps)
    return DirectionJudgement(
        Verdict.PASS, "", goodput, oracle.goodput, oracle.because, found.error_rate, flows=(flow,)
    )
