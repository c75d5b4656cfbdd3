"""What the history says of the boards of a lab: out of service since an earlier run, or suspected."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.execution.path_kind import exists
from pytest_pinet.history.boards import odd_in, standing
from pytest_pinet.history.history import OFF, open_history
from pytest_pinet.history.points import OutOfService, Suspicion

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore

EARLIER_RUNS = "earlier runs"


def remembered(url: str, lab: str, nodes: Collection[str]) -> list[Finding]:
    """Return a finding for each of these nodes that the history remembers. Raises ConfigError."""
    if not _exists(url):
        return []
    with open_history(url) as store:
        out = [one for one in store.remembered(OutOfService, lab) if one.node in nodes]
        suspected = _suspected(store, lab)
    act = "when the board is well, run: pinet doctor --clear"
    found = [Finding(Status.WRONG, one.node, f"{one.node} is {one}", act) for one in out]
    act = (
        "exchange it with another board of its kind, at the same port; if the fault moves with it, it is the board; "
        "then run: pinet doctor --clear"
    )
    own = ((node, text) for node, text in suspected.items() if node in nodes)
    return found + [Finding(Status.UNKNOWN, node, text, act, shown=True) for node, text in own]


def clear(url: str, lab: str, nodes: Collection[str]) -> list[str]:
    """Put these nodes back into service, and end suspicions of them. Return a sentence for each. Raises ConfigError."""
    if not _exists(url):
        return []
    with open_history(url) as store:
        out = [one.node for one in store.remembered(OutOfService, lab) if one.node in nodes]
        suspected = [node for node in _suspected(store, lab) if node in nodes]
        if out:
            store.put_into_service(lab, out)
        if suspected:
            now = datetime.now(UTC)
            store.remember(lab, [Suspicion(node, now, "", "", cleared=True) for node in suspected])
    return [f"{node} is back in service" for node in out] + [f"{node} is no longer suspected" for node in suspected]


def _suspected(store: HistoryStore, lab: str) -> dict[str, str]:
    """Return why boards are suspected, by node: what runs have stored, and what the values of imported runs say."""
    stored = {node: f"{node} is {one}" for node, one in standing(store.remembered(Suspicion, lab)).items()}
    return {odd.node: str(odd) for odd in odd_in(store, lab)} | stored


def _exists(url: str) -> bool:
    return url.strip().lower() not in OFF and ("://" in url or exists(url))
