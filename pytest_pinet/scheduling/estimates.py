"""How long tests take: as long as in the latest run that had them, else as long as others of that run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

# A test of the usual 5 s after 1 s of warm-up, with what wiring, evidence and undo cost.
DEFAULT_TOTAL_S = 9.0
DEFAULT_TRAFFIC_S = 6.5
# Beside traffic: opening the link, and closing it.
AROUND_S = 1.5
_LATEST_RUNS = 5


@dataclass(frozen=True)
class Estimate:
    """Seconds of a whole test, and those of them in which it measures."""

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
        """Read the results of the latest runs below this folder; a test's latest one counts."""
        known: dict[str, Estimate] = {}
        folders: Sequence[Path] = sorted((p for p in runs.glob("*/results.jsonl")), reverse=True)
        for file in folders[:_LATEST_RUNS]:
            for nodeid, estimate in _read(file).items():
                known.setdefault(nodeid, estimate)
        return cls(known)

    def __getitem__(self, nodeid: str) -> Estimate:
        return self._known.get(nodeid, self._usual)


def _read(file: Path) -> dict[str, Estimate]:
    """A test may measure several times; what was cut short or did not measure says nothing."""
    found: dict[str, Estimate] = {}
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # another user's, or removed meanwhile
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
