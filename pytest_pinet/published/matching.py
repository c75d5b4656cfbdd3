"""Finds the result that was measured under the conditions of a published value, and the numbers to compare."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.published import (
    BOTH_WAYS,
    CAPPED,
    HTTP,
    HTTP_HEAD,
    INCAST,
    ONE_WAY,
    PAIRS,
    PublishedFigure,
)
from pytest_pinet.model.record.result import ResultRecord

# A number in the key of traffic, such as pb40M.
_NUMBER = re.compile(r"(pb|P|w|M|b)(\d+\.?\d*|\.\d+)M?")
_PLAIN_MTU = 1500
_PLAIN_PAYLOAD = 128
_LARGE_PAYLOAD = "pcie_bus_perf"
_NO_TIMESTAMPS = "no TCP timestamps"
_ONBOARD = "onboard"
# Tunings that spread a NIC's work over the processors. Some published values differ only in them.
_SPREADING = {"irq", "rps", "xps"}
# The switch under test of S2 is a gigabit switch. The source does not name the boards.
_SPEED_OF_PAIRS = "1000 Mbit/s"


@dataclass(frozen=True)
class Sent:
    """The parsed traffic part of an ID (``tcp-P10-pb40M-bidir``)."""

    kind: str
    flags: frozenset[str] = frozenset()
    numbers: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, key: str) -> Sent:
        """Parse a traffic key. Parts that are no numbers are flags."""
        kind, *parts = key.split("-")
        found = {part: _NUMBER.fullmatch(part) for part in parts}
        numbers = {match[1]: float(match[2]) for match in found.values() if match}
        return cls(kind, frozenset(part for part, match in found.items() if not match), numbers)

    def is_for(self, figure: PublishedFigure) -> bool:
        if (self.kind == HTTP) != (figure.mode == HTTP) or self.kind not in ("tcp", HTTP):
            return False
        cap = self.numbers.get("pb", 0.0) * self.numbers.get("P", 1.0)
        wanted = {
            "P": figure.streams,
            "w": None if figure.window_kib is None else figure.window_kib * 1024,
            "M": figure.mss,
        }
        return (
            all(self.numbers.get(name, 1.0) == value for name, value in wanted.items() if value is not None)
            and ("w" in self.numbers) == (figure.window_kib is not None)
            and ("M" in self.numbers) == (figure.mss is not None)
            and ("bidir" in self.flags) == figure.both_ways
            and cap == (figure.peer_cap_mbps or 0.0)
            and "b" not in self.numbers
        )


def results_of(figure: PublishedFigure, results: Sequence[ResultRecord]) -> list[ResultRecord]:
    """Return the results that were measured under this value's conditions, the best one last.

    Results with values come after results without, and results with fewer tunings after results with more.
    """
    found = [result for result in results if _is_of(figure, result)]
    return sorted(found, key=lambda result: (bool(result.directions), -len(_requested(result))))


def numbers_of(figure: PublishedFigure, result: ResultRecord) -> tuple[float, ...]:
    """Return the numbers in Mbit/s to compare with the published ones, as many as there are.

    If one number stands for several flows, this is the slowest flow. For HTTP it is whole responses with their headers.
    """
    if figure.mode == HTTP:
        http = result.http
        assert http is not None, "the traffic of an HTTP value is HTTP"
        return (http.requests_per_s * (http.size_bytes + HTTP_HEAD) * 8 / 1e6,)
    flows = [flow.goodput_bps / 1e6 for flow in result.flows]
    if figure.mode in (PAIRS, INCAST):
        return tuple(flows) if len(figure.mbps) == len(flows) else (min(flows),)
    return tuple(result.directions[way].goodput_bps / 1e6 for way in _ways(figure))


def _ways(figure: PublishedFigure) -> tuple[str, ...]:
    """Return the directions of the published numbers."""
    if figure.both_ways and figure.direction is None:
        return ("tx", "rx")
    return ("rx" if figure.mode == INCAST else figure.direction or "tx",)


def _is_of(figure: PublishedFigure, result: ResultRecord) -> bool:
    combination = result.combination
    if not combination.traffic or combination.topology != _topology(figure):
        return False
    return (
        Sent.read(combination.traffic).is_for(figure)
        and (not result.directions or result.directions.keys() >= set(_ways(figure)))
        and _is_hardware_of(figure, result)
        and _is_tuned_for(figure, result)
    )


def _topology(figure: PublishedFigure) -> str:
    if figure.mode in (ONE_WAY, BOTH_WAYS, CAPPED, HTTP):
        return "pair"
    if figure.mode == INCAST:
        return f"incast:{figure.senders}"
    return f"pairs:{figure.pairs or len(figure.mbps)}"


def _is_hardware_of(figure: PublishedFigure, result: ResultRecord) -> bool:
    combination, link = result.combination, result.link
    if figure.board is None:
        return link is None or link.startswith(_SPEED_OF_PAIRS)
    board = load().boards[figure.board]
    label = _ONBOARD if figure.nic == board.onboard else figure.nic
    return bool(combination.board == figure.board and combination.nic == label)


def _is_tuned_for(figure: PublishedFigure, result: ResultRecord) -> bool:
    """Return whether clock, payload and MTU match: requested tunings must hold, and all else must have usual values."""
    requested, held = _requested(result), _held(result)
    if figure.settings is not None and not held.keys() & _SPREADING == set(figure.settings) == requested & _SPREADING:
        return False
    clock, kernel = held.get("arm_freq"), held.get("kernel", "")
    if figure.clock_mhz is not None:
        stock = load().boards[figure.board or ""].clock_mhz
        if figure.clock_mhz != (stock if "arm_freq" not in requested else clock and int(clock)):
            return False
    elif "arm_freq" in requested:
        return False
    if figure.payload is not None and (figure.payload > _PLAIN_PAYLOAD) != (_LARGE_PAYLOAD in kernel):
        return False
    if figure.timestamps is False:
        oracles = [direction.oracle for direction in result.directions.values()]
        if not all(_NO_TIMESTAMPS in oracle for oracle in oracles):
            return False
    return result.link is None or result.link.endswith(f"MTU {figure.mtu or _PLAIN_MTU}")


def _requested(result: ResultRecord) -> set[str]:
    return {one.name for one in result.tunings or ()}


def _held(result: ResultRecord) -> dict[str, str]:
    """Return the settings that hold on all ends that have them."""
    lost = {one.name for one in result.tunings or () if not one.outcome.holds}
    return {one.name: one.asked for one in result.tunings or () if one.name not in lost}
