"""What must hold at the ends of a link for its figures to be worth judging, before, between and after traffic."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.evidence.preconditions import BUSY_S, Place, read_all
from pytest_pinet.judge.preconditions import broke_during, broken, notes, socket_trouble
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.link import Link
from pytest_pinet.model.conditions import Conditions
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.tries import Try

# How long a repeat may wait for the ends to become quiet.
QUIET_TIMEOUT_S = 10.0
# What a tool gets of a core that it shares with one other is half; below this it lacks nothing.
NEEDS_PERCENT = 35.0


class Preconditions:
    """Reads all ends on construction, which raises InvalidMeasurement for a bus or supply that is not as it must be."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._before = self._read()
        self._busy: dict[int, list[str]] = {}
        self._notes: list[str] = []
        refuse([sentence for i, one in enumerate(self._before) for sentence in broken(one, bus=self._bus(i))])

    def _bus(self, end: int) -> Bus | None:
        """Where seconds are counted instructions a bus has no speed, whatever it signals."""
        here = self._link.ends[end].endpoint
        return None if here.node.clock == VIRTUAL else here.interface.bus

    def _read(self, busy_s: float = 0.0) -> list[Conditions]:
        # Whoever must wait for quiet ends does so here, for QUIET_TIMEOUT_S.
        return read_all([Place(end.shell, end.device) for end in self._link.ends], busy_s, patience_s=0.0)

    @property
    def before(self) -> Sequence[Conditions]:
        """How the ends were found, by their numbers."""
        return self._before

    def look_for_others(self) -> None:
        """See, before traffic is repeated, what else the processors of the ends do: it may explain a slow figure.

        Whatever keeps them busy gets some time to end; what goes on for longer is an excuse.
        """
        now = self._read(BUSY_S)

        def quiet() -> bool:
            nonlocal now
            now = self._read(BUSY_S)
            return not any(broken(one) for one in now)

        if any(broken(one) for one in now) and not Deadline(QUIET_TIMEOUT_S).wait_until(quiet, interval_s=0.1):
            for index, one in enumerate(now):
                self._busy.setdefault(index, []).extend(broken(one))
        self._notes += [sentence for one in now for sentence in notes(one)]

    def excuses(self, tries: Sequence[Try]) -> list[str]:
        """Why a figure below its limit is nobody's fault: an end was busy, and the traffic needed much of it.

        A kernel that shares its processors fairly gives a tool what little it needs, whatever else runs there.
        """
        needy = (index for index in self._busy if _tool_cpu(index, tries) >= NEEDS_PERCENT)
        return list(dict.fromkeys(sentence for index in needy for sentence in self._busy[index]))

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures must know of the ends."""
        return list(dict.fromkeys(self._notes))

    def check_after(self, tries: Sequence[Try], traffic: Traffic, links: Sequence[Link] = ()) -> list[str]:
        """Compare with the state before the traffic, and with what the senders' kernels really sent.

        Returns a sentence for each thing that broke at an end meanwhile: the figures are those of a broken end. Raises
        InvalidMeasurement for segments that nobody asked for.
        """
        pairs = zip(self._before, self._read(), strict=True)
        broke = [sentence for before, after in pairs for sentence in broke_during(before, after)]
        for number, one in enumerate(tries):
            link = links[number] if links else self._link
            if one.excluded:
                continue  # a link that is down has the smallest segments there are, and this stands in no figure
            for measured in one.flows:
                # What somebody asked for is told with the figure (pytest_pinet.unmet).
                if measured.flow.sockets is None or traffic.udp or traffic.mss is not None:
                    continue
                path = link.path_between(measured.sender, measured.receiver)
                end = str(link.ends[measured.sender].endpoint)
                refuse(socket_trouble(measured.flow.sockets, path.mtu, path.timestamps, end=end))
        return broke


def _tool_cpu(end: int, tries: Sequence[Try]) -> float:
    """Percent of one core that the tool used at most on this end; all of one where nobody told."""
    used = []
    for one in tries:
        runs = dict.fromkeys(flow.run for flow in one.flows)
        for run, measurement in zip(runs, one.measurements, strict=True):
            role = "dut" if run.a == end else "peer" if run.b == end else None
            if role is not None:
                used.append(measurement.cpu_percent.get(role, 100.0))
    return max(used, default=100.0)


def refuse(sentences: Sequence[str]) -> None:
    """Raises InvalidMeasurement with all of them, where there are any."""
    if sentences:
        raise InvalidMeasurement("\n".join(dict.fromkeys(sentences)))
