"""Results of `pinet selftest --json` on real links. They are recorded, because a page must be made within minutes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).with_name("live")
_PASSED = ("pass", "marginal", "improved")


def live(folder: Path = FOLDER) -> str:
    """Return a table of all recorded self-tests, a row per reduction; empty without recordings."""
    reports = [report for file in sorted(folder.glob("*.json")) for report in json.loads(file.read_text())]
    gates = [(gate, report["tolerance"]) for report in reports for gate in report["gates"]]
    if not gates:
        return ""
    names = sorted({report["id"] for report in reports})
    tolerances = sorted({tolerance for _, tolerance in gates})
    lines = [
        f"{len(gates)} gates of `pinet selftest` on {', '.join(names)} of the virtual lab, in random order "
        f"(`benchmarks/verdicts/live/`). The limit is {' or '.join(f'{one * 100:g} %' for one in tolerances)} below a "
        "baseline that was measured first. A shaper sets the rates, so the values are emulated.",
        "",
        "| slower by | gates | right | wrong | inconclusive | invalid | median s | 90 % s | measured |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for reduction in sorted({gate["reduction"] for gate, _ in gates}):
        lines.append(_row(reduction, [entry for entry in gates if entry[0]["reduction"] == reduction], reports))
    return "\n".join(lines)


def _row(reduction: float, gates: Sequence[tuple[dict[str, Any], float]], reports: Sequence[dict[str, Any]]) -> str:
    ended = {"right": 0, "wrong": 0, "inconclusive": 0, "invalid": 0}
    for gate, tolerance in gates:
        verdict = gate["verdict"]
        if verdict in _PASSED or verdict == "fail":
            ended["right" if (verdict == "fail") == (reduction > tolerance) else "wrong"] += 1
        else:
            ended["inconclusive" if verdict == "inconclusive" else "invalid"] += 1
    seconds = sorted(gate["traffic_seconds"] for gate, _ in gates if gate["verdict"] not in ("invalid", "error"))
    measured = [
        1 - gate["goodput_bps"] / report["baselines_bps"][gate["direction"]]
        for report in reports
        for gate in report["gates"]
        if gate["reduction"] == reduction and gate["goodput_bps"] > 0
    ]
    cells = [f"{reduction * 100:g} %", len(gates), *ended.values()]
    cells += [f"{median(seconds):.0f}", f"{seconds[int(0.9 * (len(seconds) - 1))]:.0f}"] if seconds else ["-", "-"]
    cells += [f"{median(measured) * 100:.1f} %"] if measured else ["-"]
    return f"| {' | '.join(map(str, cells))} |"
