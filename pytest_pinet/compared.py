"""A comparison of two states as a result like any other: B is judged, A is its limit."""

from __future__ import annotations

from pytest_pinet.bounds import Bounds
from pytest_pinet.judge.gate import Ruling
from pytest_pinet.judge.interleaved import Result
from pytest_pinet.judge.verdict import Judgement
from pytest_pinet.lab.link import Link
from pytest_pinet.model.limits import Metric
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import SEVERITY, Verdict, worst
from pytest_pinet.report.comparison import ComparisonRecord
from pytest_pinet.report.record import DirectionRecord, ResultRecord, combination_record, direction_record
from pytest_pinet.report.tunings import tuning_notes, tuning_records
from pytest_pinet.tries import MeasuredFlow

_VERDICTS = {
    Result.SLOWER: Verdict.FAIL,
    Result.SAME: Verdict.PASS,
    Result.FASTER: Verdict.IMPROVED,
    Result.INCONCLUSIVE: Verdict.INCONCLUSIVE,
    Result.GO_ON: Verdict.INCONCLUSIVE,
}


def compared_record(link: Link, traffic: Traffic, found: ComparisonRecord) -> ResultRecord:
    """The result of a comparison of two nodes: figures of state B, limits from state A, and the comparison itself.

    ``test``, ``files`` and ``rerun`` are the caller's to fill in.
    """
    directions = {way: _direction(link, traffic, Direction(way), found) for way in found["directions"]}
    verdict = worst([Verdict(direction["verdict"]) for direction in directions.values()])
    worst_way = min(directions, key=lambda way: SEVERITY.index(Verdict(directions[way]["verdict"])))
    return {
        "id": found["id"],
        "test": "",
        "verdict": verdict.value,
        "message": f"{link.id} {worst_way}: {directions[worst_way]['reason']}",
        "combination": combination_record(link.combination, traffic),
        "build": found["builds"].get("B", {}),
        "profile": "",
        "link": f"{link.path.speed_mbps} Mbit/s {link.path.duplex or 'unknown'} duplex, MTU {link.path.mtu}",
        "versions": {},
        "cpu_percent": {},
        "notes": [*(event for run in found["runs"] for event in run["events"]), *tuning_notes(link.tried)],
        "started": found["started"],
        "seconds": found["seconds"],
        "traffic_seconds": found["traffic_seconds"],
        "directions": directions,
        "flows": [],
        "evenness": None,
        "cables": [],
        "files": [],
        "rerun": "",
        "comparison": found,
        "tunings": tuning_records(link.tried),
    }


def _direction(link: Link, traffic: Traffic, way: Direction, found: ComparisonRecord) -> DirectionRecord:
    side = found["directions"][str(way)]
    (run,) = link.combination.topology.runs(traffic.direction)
    ends = (run.a, run.b) if way is Direction.TX else (run.b, run.a)
    flow = Flow(way, ())
    bounds = Bounds(link, traffic, [MeasuredFlow(*ends, run, way, flow)])
    tolerance = f"{found['tolerance'] * 100:.3g}%"
    limit = Bitrate(side["a_bps"] * (1 - found["tolerance"]))
    rule = f"{tolerance} below {found['a']}, measured in turn"
    reason = f"{found['b']} against {found['a']}: {side['why']}"
    judgement = Judgement(_VERDICTS[Result(side["result"])], limit, rule, reason, Metric.TOLERANCE)
    interval = None if side["interval"] is None else [side["a_bps"] * (1 + part) for part in side["interval"]]
    low, high = interval or (None, None)
    record = direction_record(flow, Ruling(judgement, None, side["why"], "", low, high), bounds.alone[0], ())
    record["goodput_bps"] = side["b_bps"]
    record["attempts"] = [
        {
            "fresh": "connection",
            "goodput_bps": one["goodput_bps"][str(way)],
            "seconds": one["counted_s"],
            "warmup_s": max(0.0, traffic.seconds - one["counted_s"]),
            "events": [],
            "excluded": one["excluded"],
        }
        for one in found["runs"]
        if one["side"] == "B"
    ]
    return record
