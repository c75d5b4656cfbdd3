"""Which limit holds for a combination and direction."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_pinet.model.limits import Limit, Metric, Origin
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.traffic import Direction


def most_specific(
    limits: Iterable[Limit],
    board: str,
    nic: str,
    topology: str,
    direction: Direction,
    both_ways: bool = False,
    metric: Metric = Metric.GOODPUT,
) -> Limit | None:
    """The limit that holds for one direction of a run (``both_ways``: the other one runs too), or None.

    The command line speaks of this very run, a call of this very measurement: they beat files and markers. Below them
    the most specific selectors win, then the marker over the lab file, then the one that was written last.
    """
    matching = [
        limit
        for limit in limits
        if limit.metric is metric and limit.matches(board, nic, topology, direction, both_ways)
    ]
    ranked = [
        ((max(limit.origin, Origin.MARKER), limit.specificity, limit.origin, position), limit)
        for position, limit in enumerate(matching)
    ]
    return max(ranked, key=lambda entry: entry[0])[1] if ranked else None


def resolve(minimum: Bitrate | Share, oracle: Bitrate) -> Bitrate:
    """A limit as a bit rate; a share is one of the physical limit."""
    return Bitrate(minimum.fraction * oracle.bps) if isinstance(minimum, Share) else minimum
