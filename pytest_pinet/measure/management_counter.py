"""Counts the octets of our own connections to nodes whose management shares the interface under test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from pytest_pinet.evidence.collecting import once_after
from pytest_pinet.evidence.management_octets import COMMAND, ManagementReading, parse_octets, read_octets
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.connection import MeasuredFlow
from pytest_pinet.model.evidence import ManagementTraffic
from pytest_pinet.model.lab import VIRTUAL

# The second reading is this long before the end of the traffic: then the tools send their reports, which is no traffic
# beside the measured traffic.
BEFORE_END_S = 1.0


class ManagementCounter:
    """Reads the octets at the affected ends before the traffic of a connection, and once near its end.

    The second reading is a command during the traffic. If an end has a virtual clock, each command during the traffic
    costs it instructions; the traffic tool then reads at the end of the traffic, before reports travel.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._ends = {index: end for index, end in enumerate(link.ends) if end.carries_management}
        self._by_tool = any(end.endpoint.node.clock == VIRTUAL for end in link.ends)
        self._before: dict[int, ManagementReading | None] = {}
        self._late: dict[int, ManagementReading | None] = {}
        self._threads: list[threading.Thread] = []
        self._printed: dict[int, list[str]] = {}
        self._counted: set[int] = set()

    def before(self) -> None:
        """Read right before the traffic of a connection."""
        self._late, self._threads = {}, []
        self._before = {index: self._read(index, end) for index, end in self._ends.items()}

    @property
    def at_end(self) -> Mapping[str, str]:
        """The words with which the traffic tool reads at the end of the traffic, by the name of the shell."""
        return {end.shell.name: COMMAND for end in self._ends.values()} if self._by_tool else {}

    def watching(self, watch: Callable[[], None] | None, traffic_s: float) -> Callable[[], None] | None:
        """Return a function to call repeatedly during the traffic; it calls ``watch``, and reads once."""
        if not self._ends or self._by_tool:
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

    def after(
        self, flows: Sequence[MeasuredFlow], printed: Mapping[str, str] | None = None
    ) -> dict[int, ManagementTraffic]:
        """Return what was counted at each end; nothing for an end that could not be read.

        ``printed`` is what the tool read at the end of the traffic, by the name of the shell.
        """
        for thread in self._threads:
            thread.join()
        for index, end in self._ends.items():
            if (text := (printed or {}).get(end.shell.name)) is not None:
                self._late[index] = self._parsed(index, text)
        found = {}
        for index in self._ends:
            old, new = self._before.get(index), self._late.get(index)
            if old is None or new is None or new.uptime_s <= old.uptime_s:
                continue
            seconds, octets = new.uptime_s - old.uptime_s, new.octets_since(old)
            moved = self._traffic_bps(index, flows)
            share = octets * 8 / seconds / moved if moved else None
            found[index] = ManagementTraffic(octets, seconds, share)
        self._counted |= found.keys()
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
        return self._parsed(index, read_octets(end.shell))

    def _parsed(self, index: int, text: str) -> ManagementReading | None:
        self._printed.setdefault(index, []).append(text)
        return parse_octets(text)

    @property
    def uncounted(self) -> list[str]:
        """A note for each affected end that could not be counted."""
        return [
            f"ssh, or an NFS root, of {self._link.ends[index].endpoint} uses the interface under test, but its octets "
            f"were not counted ({self._why_not(texts)})"
            for index, texts in self._printed.items()
            if index not in self._counted
        ]

    def _why_not(self, texts: Sequence[str]) -> str:
        if not any(map(parse_octets, texts)):
            return "this needs ss of iproute2"
        return "there was no second reading near the end of the traffic"

    def raw(self) -> dict[str, str]:
        """Return all output of the nodes, by file name."""
        return {f"{index}-management.txt": "\n".join(texts) for index, texts in self._printed.items()}
