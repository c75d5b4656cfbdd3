"""Runs whose connections are replayed: measuring and judging are real, and there is no traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import Completed
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure import measurement
from pytest_pinet.measure.measurement import measure
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.connection import Connection, MeasuredFlow
from pytest_pinet.model.evidence import EndEvidence, Trouble
from pytest_pinet.model.limits import Origin, parse_arguments
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.traffic.iperf3 import Iperf3
from tests.support.link_stand_in import TX, flow, link, one_connection
from tests.support.local_shell import LocalShell


class Board(LocalShell):
    """A board with a governor. It answers no command that contains ``refused``, and perhaps none after the traffic."""

    governor = "ondemand"
    refused = "nothing"
    ends_with_traffic = False
    answers = True

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if not self.answers or self.refused in command:
            raise SshError(f"{self.name} does not answer")
        governors = "cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
        return super().run(command.replace(governors, f"echo {self.governor}"), timeout_s)


class Replayed(Runs):
    """Yields connections at 800 Mbit/s with this evidence, without traffic; the last one again and again."""

    measured = flow(payload=100_000_000, retransmits=5000)
    evidence: Sequence[tuple[EndEvidence, ...]] = ()
    set_aside_count = 0
    duplexes: tuple[str, str] = ("full", "full")

    def __enter__(self) -> Replayed:
        self.cables: Any = SimpleNamespace(carrier_changes=[None], records=list, duplexes=self.duplexes)
        self.conditions: Any = SimpleNamespace(before=(), notes=[], look_for_others=lambda: None)
        return self

    def __exit__(self, *_: object) -> None: ...

    def again(self, *_: object) -> Connection:
        number = min(len(self.connections), len(self.evidence) - 1)
        seen = replace(one_connection(self.measured, cpu=5.0), lasted_s=3.0, evidence=self.evidence[number])
        self.connections.append(seen)
        for end in self._link.ends:
            if isinstance(end.shell, Board):
                end.shell.answers = not end.shell.ends_with_traffic
        return seen

    def set_aside(self, why: str) -> None:
        self.set_aside_count += 1
        super().set_aside(why)

    def finish(self, *_: object) -> list[Trouble]:
        return []


def replayed(
    here: Path | Link,
    monkeypatch: pytest.MonkeyPatch,
    *evidence: tuple[EndEvidence, ...],
    measured: MeasuredFlow = Replayed.measured,
    limits: Mapping[str, str] | None = None,
) -> tuple[ResultRecord, Replayed]:
    """Return the result and its runs. Without ``limits``, the goodput must be 900 Mbit/s."""
    runs: list[Replayed] = []

    class Own(Replayed):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            self.evidence, self.measured = evidence, measured
            runs.append(self)

    monkeypatch.setattr(measurement, "Runs", Own)
    monkeypatch.setattr(measurement, "ceilings", lambda *_: ({}, []))
    plan = GatePlan(
        parse_arguments(dict(limits or {"min": "900M"}), Origin.MARKER), PROFILES["standard"], link_ups=False
    )
    record = measure(MeasureContext(link(here) if isinstance(here, Path) else here, Iperf3()), TX, plan)
    return record, runs[0]
