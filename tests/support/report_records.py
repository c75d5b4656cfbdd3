"""Result records as a run on the virtual lab would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_pinet.model.limits import Metric, Threshold
from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.change import ComparisonRecord
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord, SkippedRecord
from pytest_pinet.model.verdict import worst

ONE_GIGABIT = 941_482_445.0
FAST_ETHERNET = 94_148_244.5
BECAUSE = "1000 Mbit/s link, MTU 1500, TCP timestamps"


def samples(bps: float, spread: float = 0.01) -> tuple[Sample, ...]:
    """Return one warm-up second and five counted ones around ``bps``."""
    steps = (-0.5, 0.0, -1.0, 0.5, 0.0, 1.0)
    return tuple(
        Sample(float(i), 1.0, int(bps * (1 + spread * step) / 8), warmup=i == 0) for i, step in enumerate(steps)
    )


def limit_of(bps: float, words: str = "", source: str = "lab/virtual.yaml:88") -> Threshold:
    return Threshold(Metric.GOODPUT, bps, words or str(Bitrate(bps)), source)


def direction(
    goodput: float,
    limit: float | Threshold | None = None,
    verdict: str = "pass",
    oracle: float = ONE_GIGABIT,
    **more: Any,
) -> DirectionRecord:
    record = {
        "goodput_bps": goodput,
        "interval_bps": None,
        "error_rate": 0.01,
        "limit": limit_of(limit) if isinstance(limit, float) else limit,
        "oracle_bps": oracle,
        "oracle": BECAUSE,
        "verdict": verdict,
        "reason": "",
        "stopped": "",
        "state": "",
        "connections": [
            {
                "fresh": "connection",
                "goodput_bps": goodput,
                "level_bps": goodput,
                "seconds": 5.0,
                "warmup_s": 1.0,
                "events": [],
                "excluded": "",
                "samples": samples(goodput),
            }
        ],
        "extras": [],
        "baseline": None,
        "retransmits": 12,
        "lost_packets": None,
        "packets": None,
        "jitter_ms": None,
        "streams_bps": [goodput],
    }
    return DirectionRecord.model_validate(record | more)


def result(
    combination: str,
    directions: dict[str, DirectionRecord],
    verdict: str | None = None,
    message: str = "",
    traffic: str = "tcp-P1",
    test: str = "test_line_rate",
    link: str | None = "1000 Mbit/s full, MTU 1500",
    peer: str = "pi4b-2:onboard",
    notes: tuple[str, ...] = (),
) -> ResultRecord:
    board, _, rest = combination.partition(":")
    nic, _, rest = rest.partition("/")
    topology, _, tuning = rest.partition("/")
    node = f"tests/gate/test_tcp.py::{test}[{combination}]"
    record = {
        "id": "/".join([combination, f"{traffic}-{next(iter(directions))}" if len(directions) == 1 else traffic])
        if directions
        else combination,
        "test": node,
        "verdict": verdict or worst([one.verdict for one in directions.values()]),
        "message": message,
        "combination": {
            "id": combination,
            "board": board,
            "nic": nic,
            "topology": topology,
            "tuning": tuning,
            "traffic": traffic if directions else "",
            "dut": f"{board}-1:{nic}",
            "dut_port": "sw1/3",
            "peer": peer,
            "peer_port": "sw1/4",
            "ends": [{"end": f"{board}-1:{nic}", "port": "sw1/3"}, {"end": peer, "port": "sw1/4"}],
        },
        "flows": [],
        "evenness": None,
        "cables": [],
        "build": {"uname": "6.12.25-v8+ aarch64", "driver": "bcmgenet", "firmware": None},
        "profile": "standard" if directions else "",
        "link": link,
        "versions": {"dut": "3.18", "peer": "3.12"} if directions else {},
        "cpu_percent": {"dut": 61.234, "peer": 12.0} if directions else {},
        "notes": list(notes),
        "started": "2026-11-21T00:01:02Z",
        "seconds": 7.5,
        "traffic_seconds": 6.0,
        "directions": directions,
        "files": ["raw/pi4b_ax88179_pair-0123456789ab/client.json"],
        "rerun": f"pytest --pinet-lab lab/virtual.yaml '{node}'",
    }
    return ResultRecord.model_validate(record)


def run_record(results: Sequence[ResultRecord], skipped: Sequence[SkippedRecord] = (), **more: Any) -> RunRecord:
    record = {
        "schema": 1,
        "run": "20261121-000102",
        "lab": "virtual",
        "lab_file": "lab/virtual.yaml",
        "figures": "emulated",
        "pinet": "0.1.0",
        "started": "2026-11-21T00:01:02Z",
        "finished": "2026-11-21T00:02:03Z",
        "complete": True,
        "exitstatus": 1,
        "results": results,
        "skipped": skipped,
    }
    return RunRecord.model_validate(record | more)


COMPARISON = ComparisonRecord(
    id="pi4b:onboard/pair/tcp-P1-tx",
    a="as it is",
    b="slower",
    why="",
    tolerance=0.03,
    error_rate=0.01,
    pairs=4,
    directions={},
    turns=(),
    started="2026-11-21T00:01:02Z",
    seconds=60.0,
    builds={},
    traffic_seconds=48.0,
)
NIGHT: list[ResultRecord] = [
    result("pi3b:onboard/pair", {"tx": direction(94.1e6, 88.5e6, oracle=FAST_ETHERNET)}),
    result("pi3b:rtl8153/pair", {"tx": direction(321.4e6, 300e6, "marginal", 425.984e6)}),
    result(
        "pi4b:onboard/pair", {"tx": direction(941.2e6, 885e6), "rx": direction(939.8e6, 885e6)}, traffic="tcp-P1-bidir"
    ),
    result("pi4b:onboard/pair", {"tx": direction(941.3e6, 885e6)}),
    result("pi4b:onboard/pair", {"rx": direction(700.2e6, 885e6, "fail")}),
    result("pi4b:ax88179/pair", {"tx": direction(941.5e6, 700e6, "improved")}, traffic="tcp-P10"),
    result("cm4:aqc107/pair", {"tx": direction(3.59e9, 3.4e9, oracle=9.414e9)}, traffic="tcp-P4-w262144-M8960"),
    result("cm4:aqc107/pair", {"tx": direction(3.02e9, 3.4e9, "fail", 9.414e9)}, traffic="tcp-P4-w262144-M1460"),
    result(
        "pi5:onboard/pair",
        {
            "tx": direction(
                951.0e6,
                885e6,
                "invalid",
                reason=f"951.0 Mbit/s is above the physical limit 941.5 Mbit/s ({BECAUSE}): a measurement error",
            )
        },
    ),
    result(
        "pi5:rtl8125b/pair",
        {
            "rx": direction(
                2.21e9, 2.2e9, "inconclusive", 2.353e9, reason="five repeats spread by 3.1 %, the limit is 0.5 % away"
            )
        },
    ),
    result("pi5:i226v/pair", {"tx": direction(2.34e9, oracle=2.353e9)}),
    result(
        "cm4:onboard/pair",
        {},
        "error",
        "no carrier on eth0 of cm4-1 after 20 s: switch port sw1/5 is administratively up and reports no link. "
        "The link was up 3 s before.\n  -> check the cable between cm4-1 and port sw1/5",
        link=None,
    ),
]
NIGHT_SKIPPED: list[SkippedRecord] = [
    SkippedRecord(
        id="pi3b:rtl8125b/pair", reason="no NIC 'rtl8125b' in a pi3b of lab virtual (have: onboard, rtl8153)"
    ),
    SkippedRecord(
        id="pi4b:rtl8125b/pair", reason="no NIC 'rtl8125b' in a pi4b of lab virtual (have: onboard, ax88179)"
    ),
]
