"""The tests' needs, as a file from the workers, which collect the tests, to the controller, which collects none."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = "plan.json"


@dataclass(frozen=True)
class Needs:
    """The places that a test holds and the contention domains in which it measures.

    Both are empty if it needs no lab.
    """

    places: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PlannedTest:
    """A test as the planner sees it. ``index`` is the test's number in the collection.

    ``total_s`` is the expected duration. For ``traffic_s`` of it the test measures, alone in its contention domains.
    """

    index: int
    needs: Needs
    total_s: float
    traffic_s: float


def joined(needs: Mapping[str, Needs]) -> dict[str, Needs]:
    """Join the needs of tests that share nodes, directly or through others: one worker then runs all of these tests."""
    parts: list[Needs] = []
    for need in needs.values():
        touching = [part for part in parts if not part.places.isdisjoint(need.places)]
        places = need.places.union(*(part.places for part in touching))
        domains = need.domains.union(*(part.domains for part in touching))
        parts = [*(part for part in parts if part not in touching), Needs(places, domains)]
    return {nodeid: next(part for part in parts if need.places <= part.places) for nodeid, need in needs.items()}


def write(folder: Path, needs: Mapping[str, Needs]) -> None:
    """Write the needs by node ID, as a whole or not at all.

    All workers write the same content, so the last one may win.
    """
    tests = {nodeid: [sorted(need.places), sorted(need.domains)] for nodeid, need in needs.items()}
    draft = folder / f".{FILE}.{os.getpid()}"
    draft.write_text(json.dumps(tests), encoding="utf-8")
    draft.replace(folder / FILE)


def read(folder: Path) -> dict[str, Needs]:
    """Return the needs by node ID; empty if no worker has written the file yet."""
    try:
        tests = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {nodeid: Needs(frozenset(places), frozenset(domains)) for nodeid, (places, domains) in tests.items()}


WORKER_INPUT = "pinet_run_folder"
