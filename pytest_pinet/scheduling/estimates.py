"""Estimates the duration of tests from the latest run of each test; for unknown tests the median of the known ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

# A test with the usual 5 s after 1 s of warm-up, plus wiring, evidence and undo.
DEFAULT_TOTAL_S = 9.0
DEFAULT_TRAFFIC_S = 6.5
# Time besides traffic: opening and closing the link.
AROUND_S = 1.5
_LATEST_RUNS = 5


@dataclass(frozen=True)
class Estimate:
    """Duration of a whole test, and its part in which traffic runs, in seconds."""

    total_s: float
    traffic_s: float


class Estimates:
    """Estimates by node id."""

    def __init__(self, known: dict[str, Estimate]) -> None:
        self._known = known
        total = median([e.total_s for e in known.values()]) if known else DEFAULT_TOTAL_S
        traffic = median([e.traffic_s for e in known.values()]) if known else DEFAULT_TRAFFIC_S
        self._usual = Estimate(total, traffic)

    @classmethod
    def of_earlier_runs(cls, runs: Path) -> Estimates:
        """Read the results of the latest runs below this folder. The latest result of each test counts."""
        known: dict[str, Estimate] = {}
        folders: Sequence[Path] = sorted((p for p in runs.glob("*/results.jsonl")), reverse=True)
        for file in folders[:_LATEST_RUNS]:
            for nodeid, estimate in _read(file).items():
                known.setdefault(nodeid, estimate)
        return cls(known)

    def __getitem__(self, nodeid: str) -> Estimate:
        return self._known.get(nodeid, self._usual)


def _read(file: Path) -> dict[str, Estimate]:
    """Return the estimates of one file: a test's measurements are added up, broken or empty ones are ignored."""
    found: dict[str, Estimate] = {}
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # another user's file, or removed meanwhile
        return found
    for line in text.splitlines():
        try:
            result = json.loads(line)
            nodeid, seconds, traffic_s = result["test"], float(result["seconds"]), float(result["traffic_seconds"])
        except (ValueError, KeyError, TypeError):
            continue
        if traffic_s > 0:
            before = found.get(nodeid, Estimate(AROUND_S, 0.0))
            found[nodeid] = Estimate(before.total_s + seconds, before.traffic_s + traffic_s)
    return found
