"""The table of recorded self-tests."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.verdicts.live import live


def gate(reduction: float, verdict: str, seconds: float, goodput: float = 94e6) -> dict[str, object]:
    return {
        "direction": "tx",
        "reduction": reduction,
        "verdict": verdict,
        "goodput_bps": goodput,
        "traffic_seconds": seconds,
        "seconds": seconds + 1,
        "reason": "",
    }


def test_right_and_wrong_verdicts_are_counted_by_reduction(tmp_path: Path) -> None:
    gates = [gate(0, "pass", 3), gate(0, "marginal", 6), gate(0, "fail", 9)]
    gates += [gate(0.05, "fail", 9, 89.3e6), gate(0.05, "pass", 3, 89.3e6), gate(0.05, "invalid", 9, 89.3e6)]
    report = {"id": "pi3b:onboard/pair", "tolerance": 0.02, "baselines_bps": {"tx": 94e6}, "gates": gates}
    (tmp_path / "one.json").write_text(json.dumps([report]))
    lines = live(tmp_path).splitlines()
    assert "6 gates" in lines[0]
    assert "The limit is 2 % below" in lines[0]
    assert lines[-2] == "| 0 % | 3 | 2 | 1 | 0 | 0 | 6 | 6 | 0.0 % |"
    assert lines[-1] == "| 5 % | 3 | 1 | 1 | 0 | 1 | 6 | 3 | 5.0 % |"


def test_without_any_there_is_no_table(tmp_path: Path) -> None:
    assert live(tmp_path) == ""
