"""What the history says of the boards of a lab: out of service since an earlier run, or unlike others of their kind."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.history.boards import odd_boards
from pytest_pinet.history.history import OFF, open_history

EARLIER_RUNS = "earlier runs"
# The newest points of each metric that are compared.
POINTS = 100


def remembered(url: str, lab: str, nodes: Collection[str]) -> list[Finding]:
    """Return a finding for each of these nodes that the history remembers. Raises ConfigError."""
    if not _exists(url):
        return []
    with open_history(url) as store:
        out = [one for one in store.out_of_service(lab) if one.node in nodes]
        points = [point for _, found in store.latest(POINTS, lab) for point in found]
    act = "when the board is well, run: pinet doctor --clear"
    found = [Finding(Status.WRONG, one.node, f"{one.node} is {one}", act) for one in out]
    act = "exchange it with another board of its kind, at the same port; if the fault moves with it, it is the board"
    odd = (one for one in odd_boards(points) if one.node in nodes)
    return found + [Finding(Status.UNKNOWN, one.node, str(one), act, shown=True) for one in odd]


def clear(url: str, lab: str, nodes: Collection[str]) -> list[str]:
    """Put these nodes back into service. Return the names of the nodes that were out of service. Raises ConfigError."""
    if not _exists(url):
        return []
    with open_history(url) as store:
        names = [one.node for one in store.out_of_service(lab) if one.node in nodes]
        if names:
            store.put_into_service(lab, names)
    return names


def _exists(url: str) -> bool:
    return url.strip().lower() not in OFF and ("://" in url or Path(url).exists())
