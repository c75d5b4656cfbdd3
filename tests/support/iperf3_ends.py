"""This machine as both ends of real iperf3 runs over loopback."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.processes import PORTS
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.local_shell import LocalProcess, RecordingShell

DUT, PEER = "127.0.0.1", "127.0.0.2"
TCP = Traffic(Direction.TX, duration_s=1, warmup_s=0, bitrate=Bitrate(20e6), length=16384)


class Ends:
    """Two shells on this machine that store their processes."""

    def __init__(self) -> None:
        self.dut, self.peer = RecordingShell("dut-1"), RecordingShell("peer-1")

    @property
    def spawned(self) -> dict[str, list[LocalProcess]]:
        return {end.name: end.spawned for end in (self.dut, self.peer)}

    def measure(
        self,
        traffic: Traffic,
        on_progress: Callable[[float], None] | None = None,
        grace_s: float = 15.0,
        ports: Sequence[int] = PORTS,
        peer_address: str = PEER,
        dut_address: str = DUT,
        at_end: Mapping[str, str] | None = None,
    ) -> Measurement:
        job = TrafficJob(
            self.dut, self.peer, dut_address, peer_address, traffic, on_progress=on_progress, at_end=at_end or {}
        )
        return Iperf3(ports, grace_s=grace_s).measure(job)

    def iperf3(self, name: str) -> list[int]:
        """Return the running iperf3 processes in the group that this end started last."""
        return group_members(self.spawned[name][-1].pid, "iperf3")

    def left_behind(self) -> list[int]:
        return [pid for group in self.spawned.values() for p in group for pid in group_members(p.pid)]


def group_members(group: int, name: str | None = None) -> list[int]:
    """Return the processes of a process group; with ``name``, only the processes of this name."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            comm, rest = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        state, _, pgrp = rest.split()[:3]
        if int(pgrp) == group and state != "Z" and name in (None, comm.partition("(")[2]):
            found.append(int(folder.name))
    return found
