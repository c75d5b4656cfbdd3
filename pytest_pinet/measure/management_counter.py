"""Counts the octets of our own connections to nodes whose management shares the interface under test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from pytest_pinet.evidence.collecting import once_after
from pytest_pinet.evidence.management_octets import ManagementReading, parse_octets, read_octets
from pytest_pinet.judge.attempts import MeasuredFlow
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.evidence import ManagementTraffic
from pytest_pinet.model.lab import VIRTUAL

# The second reading is this long before the end of the traffic: then the tools send their reports, which is no traffic
# beside the measured traffic.
BEFORE_END_S = 1.0


class ManagementCounter:
    """Reads the octets at the affected ends before the traffic of an attempt, and once before its end."""

    def __init__(self, link: Link) -> None:
        self._link = link
        # With a virtual clock, each command during the traffic costs the node instructions.
        self._ends = {
            index: end
            for index, end in enumerate(link.ends)
            if end.carries_management and end.endpoint.node.clock != VIRTUAL
        }
        self._before: dict[int, ManagementReading | None] = {}
        self._late: dict[int, ManagementReading | None] = {}
        self._threads: list[threading.Thread] = []
        self._printed: dict[int, list[str]] = {}

    def before(self) -> None:
        """Read right before the traffic of an attempt."""
        self._late, self._threads = {}, []
        self._before = {index: self._read(index, end) for index, end in self._ends.items()}

    def watching(self, watch: Callable[[], None] | None, traffic_s: float) -> Callable[[], None] | None:
        """Return a function to call repeatedly during the traffic; it calls ``watch``, and reads once."""
        if not self._ends:
            return watch

        def start() -> None:
            # The thread that waits for the traffic must not wait for the answer of an end.
            self._threads = [
                threading.Thread(target=self._read_late, args=(index, end), daemon=True)
                for index, end in self._ends.items()
            ]
            for thread in self._threads:
                thread.start()

        return once_after(max(traffic_s / 2, traffic_s - BEFORE_END_S), start, watch)

    def after(self, flows: Sequence[MeasuredFlow]) -> dict[int, ManagementTraffic]:
        """Return what was counted at each end; nothing for an end that could not be read."""
        for thread in self._threads:
            thread.join()
        found = {}
        for index in self._ends:
            old, new = self._before.get(index), self._late.get(index)
            if old is None or new is None or new.uptime_s <= old.uptime_s:
                continue
            seconds, octets = new.uptime_s - old.uptime_s, new.octets_since(old)
            moved = self._traffic_bps(index, flows)
            share = octets * 8 / seconds / moved if moved else None
            found[index] = ManagementTraffic(octets, seconds, share)
        return found

    def _traffic_bps(self, index: int, flows: Sequence[MeasuredFlow]) -> float:
        """Return the rate of the flows through an end, in both directions. Values are converted to full rate."""
        rates = [
            flow.flow.goodput.bps * self._link.scale
            for flow in flows
            if index in self._link.facts.crossed(flow.sender, flow.receiver)
        ]
        return sum(rates)

    def _read_late(self, index: int, end: End) -> None:
        # Any error here is reported by the thread that waits for the traffic.
        with suppress(Exception):
            self._late[index] = self._read(index, end)

    def _read(self, index: int, end: End) -> ManagementReading | None:
        text = read_octets(end.shell)
        self._printed.setdefault(index, []).append(text)
        return parse_octets(text)

    @property
    def uncounted(self) -> list[str]:
        """A note for each affected end that could not be counted."""
        return [
            f"the ssh connection to {self._link.ends[index].endpoint} uses the interface under test, but its octets "
            "were not counted (this needs ss of iproute2)"
            for index, texts in self._printed.items()
            if not any(map(parse_octets, texts))
        ]

    def raw(self) -> dict[str, str]:
        """Return all output of the nodes, by file name."""
        return {f"{index}-management.txt": "\n".join(texts) for index, texts in self._printed.items()}
