"""Reads ``published.yaml``: the published values that the suites in ``pytest_pinet/suites/`` try to reproduce."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from pytest_pinet.catalogue.load import read_data
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.quantities import Bitrate, PublishedShare
from pytest_pinet.model.traffic import Direction

ONE_WAY, BOTH_WAYS, CAPPED = "one-way", "bidirectional", "bidirectional, peer capped"
PAIRS, INCAST, HTTP = "pairs", "incast", "http"
# How far a goodput may be below the published value and still be equal. Bidirectional goodput varies more. For HTTP, no
# source says whether response headers count.
_MARGIN, _WIDE_MARGIN = 0.05, 0.15
# The size of nginx's response header in bytes, within ten bytes.
HTTP_HEAD = 245


@dataclass(frozen=True)
class PublishedFigure:
    """One published value and its conditions. None: the source does not say.

    ``mbps`` has several numbers for several flows at once (``mode`` pairs), or for a range. ``at_least``: the source
    gives only a lower bound. ``direction`` is seen from the device under test. ``streams`` and ``timestamps`` are the
    source's. ``settings`` are the tunings that must have set ``irq``, ``rps`` and ``xps``; other tunings must not have
    set them (None: any tuning). ``suspect`` says why the value is doubtful, ``not_emulated`` why a virtual lab cannot
    have it.
    """

    id: str
    source: str
    mode: str
    mbps: tuple[float, ...]
    board: str | None = None
    nic: str | None = None
    direction: str | None = None
    at_least: bool = False
    clock_mhz: int | None = None
    mtu: int | None = None
    payload: int | None = None
    window_kib: int | None = None
    mss: int | None = None
    streams: int | None = None
    timestamps: bool | None = None
    peer_cap_mbps: float | None = None
    pairs: int | None = None
    senders: int | None = None
    requests_per_s: float | None = None
    tuning: str | None = None
    settings: tuple[str, ...] | None = None
    suspect: str = ""
    note: str = ""
    not_emulated: str = ""

    @property
    def file_bytes(self) -> int:
        """The size of the served file, so that rate and requests agree. Raises ValueError if this is not HTTP."""
        if not self.requests_per_s:
            raise ValueError(f"{self.id} is not a value of HTTP")
        return round(self.mbps[0] * 1e6 / 8 / self.requests_per_s) - HTTP_HEAD

    @property
    def both_ways(self) -> bool:
        return self.mode in (BOTH_WAYS, CAPPED)


@cache
def published() -> Mapping[str, PublishedFigure]:
    """Return all published values by ID, in the order of their sources. They are read once."""
    data = read_data("published.yaml")
    figures = (_figure(entry, data["sources"][entry["source"]]) for entry in data["figures"])
    return MappingProxyType({figure.id: figure for figure in figures})


def least(*ids: str) -> str:
    """Return the limit for a test that reproduces published values: the smallest number minus a margin, as text.

    A capped peer sends at most its cap, whatever the source says. Raises KeyError for an unknown ID.
    """
    limits = []
    for figure in (published()[id_] for id_ in ids):
        mbps = min(figure.mbps)
        if figure.peer_cap_mbps is not None and figure.direction == "rx":
            mbps = min(mbps, figure.peer_cap_mbps)
        limits.append(mbps * (1 - (_WIDE_MARGIN if figure.both_ways or figure.mode == HTTP else _MARGIN)))
    return f"{Bitrate.mbps(min(limits)).bps / 1e6:.1f} Mbit/s"


def usual(board: str, nic: str, way: Direction) -> Bitrate | None:
    """Return the goodput that the first source has for this NIC of a board; None if no source has one.

    Both directions at once: of the direction that gets less.
    """
    mode = BOTH_WAYS if way is Direction.BIDIR else ONE_WAY
    for one in published().values():
        is_facing = mode == BOTH_WAYS or one.direction in (None, way)
        is_certain = not (one.suspect or one.at_least)
        if (one.board, one.nic, one.mode) == (board, nic, mode) and is_facing and is_certain:
            return Bitrate.mbps(min(one.mbps))
    return None


def of_published(limits: Iterable[Limit], combination: Combination, way: Direction) -> Iterator[Limit]:
    """Yield the limits, and add the published goodput to each that is a share of it.

    Such a limit is left out where it would be a guess: for Wi-Fi, for an emulated board, and for an unpublished NIC
    with both directions at once.
    """
    node, nic = combination.dut.node, combination.dut.interface.nic
    rate = usual(combination.board, nic.name, way)
    is_guess = nic.wireless or node.is_emulated or (rate is None and way is Direction.BIDIR)
    for limit in limits:
        if not isinstance(limit.bound, PublishedShare):
            yield limit
        elif not is_guess:
            yield replace(limit, bound=replace(limit.bound, rate=rate))


def _figure(entry: Mapping[str, Any], source: Mapping[str, Any]) -> PublishedFigure:
    given = next(
        (entry[k] for k in ("goodput_mbps", "goodput_mbps_at_least", "goodput_mbps_each") if k in entry),
        [entry.get("tx_mbps"), entry.get("rx_mbps")],
    )
    return TypeAdapter(PublishedFigure).validate_python({
        **entry,
        "mbps": given if isinstance(given, list) else [given],
        "at_least": "goodput_mbps_at_least" in entry,
        "payload": entry.get("pcie_payload_bytes"),
        "streams": entry.get("streams", source.get("streams")),
        "timestamps": source.get("timestamps"),
    })  # fmt: skip
