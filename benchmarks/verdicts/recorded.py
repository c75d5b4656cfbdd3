"""Draws connections and long runs from recorded series, by block bootstrap."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "series"
# Seconds per recorded sample.
STEP_S = 0.1
# Samples in one block of a run that is composed of several: 5 s.
BLOCK = 50
# The first half second of a connection comes from the start of the recorded run.
START = 5
FILES = {"quiet": "shaped-940", "busy": "shaped-940-busy", "unshaped": "unshaped"}


@dataclass(frozen=True)
class Recording:
    """One recorded run: the receiver's Mbit/s per 0.1 s, from its first sample."""

    rates: tuple[float, ...]

    def segment(self, samples: int, random_source: random.Random) -> list[float]:
        """Return ``samples`` samples: the start of the run, then a piece of it, or several if it is too short."""
        found = list(self.rates[: min(START, samples)])
        while len(found) < samples:
            size = min(samples - len(found), len(self.rates) - START)
            if len(found) > START or samples > len(self.rates):
                size = min(size, BLOCK)
            first = random_source.randrange(START, len(self.rates) - size + 1)
            found += self.rates[first : first + size]
        return found


@cache
def recordings(name: str, reported: bool) -> dict[int, tuple[Recording, ...]]:
    """Return the runs of one file by reduction in percent. Even repeats are for tuning, odd ones are reported."""
    found: dict[int, list[Recording]] = {}
    with gzip.open(FOLDER / f"{FILES[name]}.jsonl.gz", "rt") as lines:
        for line in lines:
            run = json.loads(line)
            kind, repeat = run["series"].rsplit("_", 1)
            if int(repeat) % 2 == int(reported):
                reduction = int(kind[-2:]) if kind[-3] == "d" else 0
                found.setdefault(reduction, []).append(Recording(tuple(run["rcv_mbps"])))
    return {reduction: tuple(runs) for reduction, runs in found.items()}


def nearest(reductions: Sequence[int], wanted: float) -> int:
    """Return the recorded reduction to scale from: the largest one not above ``wanted`` (0 is always recorded)."""
    return max((r for r in reductions if r <= wanted), default=0)
