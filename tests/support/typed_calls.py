"""Calls as tests of users make them. mypy accepts the right ones and refuses the others: strict mode reports an ignore
comment that no error needs.
"""

from __future__ import annotations

from pytest_pinet import (
    Bitrate,
    ComparisonResult,
    Direction,
    ExactGate,
    ExactResult,
    Gate,
    HttpResult,
    LadderResult,
    Link,
    PingResult,
    Result,
    TrafficResult,
    Tune,
    Verdict,
    doing,
)


def right(link: Link, gate: Gate, tune: Tune, way: str) -> bool:
    with doing("measure"), tune(link, mtu=9000):
        tcp: TrafficResult = gate.tcp(link, way, streams=2, min={"tx": "94%"}, latency="5 ms")
    ladder: LadderResult = gate.udp_ladder(link, "rx", rates=["10M"], loss="0.1%", marginal="2%")
    http: HttpResult = gate.http(link, size="100K", requests="100/s", cpu="40%")
    ping: PingResult = gate.ping(link, count=3, loss="0%")
    states: ComparisonResult = gate.compare(link, tolerance="3%")
    every: list[Result] = [tcp, ladder, http, ping, states, gate.udp(link, bitrate="5M", loss="1%")]
    rate: Bitrate = every[0]["tx"]
    return every[0].verdict is Verdict.PASS and every[0].goodput[Direction.TX] == rate


def exact(exact_gate: ExactGate) -> float:
    found: ExactResult = exact_gate(instructions={"gem_rx": "1%", "macb_*": 4}, tolerance="1%")["frame-60-rx"]
    before, after = found.functions["gem_rx [macb]"]
    return after - before


def wrong(link: Link, gate: Gate) -> None:
    gate.tcp(link, minimum="94%")  # type: ignore[call-arg]
    gate.tcp(link, min=94)  # type: ignore[arg-type]
    gate.tcp(link, streams="2")  # type: ignore[arg-type]
    gate.ping(link, min="94%")  # type: ignore[call-arg]
    gate.tcp(link).verdict = Verdict.FAIL  # type: ignore[misc]
