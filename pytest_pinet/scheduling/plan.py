"""What a test needs of the lab, as a worker that collected it tells the controller, which collects nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = "plan.json"


@dataclass(frozen=True)
class Needs:
    """The places that a test holds, and the contention domains in which it measures; none of both for other tests."""

    places: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Job:
    """A test as the planner sees it; ``index`` is its number in the collection.

    ``total_s`` is how long it is expected to take; for ``traffic_s`` of them it measures, alone in its domains.
    """

    index: int
    needs: Needs
    total_s: float
    traffic_s: float


def joined(needs: Mapping[str, Needs]) -> dict[str, Needs]:
    """Tests whose nodes hang together need all of these, so that one worker has them all, one after the other."""
    parts: list[Needs] = []
    for need in needs.values():
        touching = [part for part in parts if not part.places.isdisjoint(need.places)]
        places = need.places.union(*(part.places for part in touching))
        domains = need.domains.union(*(part.domains for part in touching))
        parts = [*(part for part in parts if part not in touching), Needs(places, domains)]
    return {nodeid: next(part for part in parts if need.places <= part.places) for nodeid, need in needs.items()}


def write(folder: Path, needs: Mapping[str, Needs]) -> None:
    """Write the needs by node id, at once or not at all; all workers collect the same, so the last one may win."""
    tests = {nodeid: [sorted(need.places), sorted(need.domains)] for nodeid, need in needs.items()}
    draft = folder / f".{FILE}.{os.getpid()}"
    draft.write_text(json.dumps(tests), encoding="utf-8")
    draft.replace(folder / FILE)


def read(folder: Path) -> dict[str, Needs]:
    """The needs by node id; empty while no worker has written any."""
    try:
        tests = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {nodeid: Needs(frozenset(places), frozenset(domains)) for nodeid, (places, domains) in tests.items()}
