"""Octets of ssh on the interface under test, in a gate of builds: a note from 0.1 % on, an invalid value above 1 %."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_pinet.ab.boots import MadeBoot
from pytest_pinet.ab.records import changed_record
from pytest_pinet.ab.series import Rules, TurnSeries
from pytest_pinet.config.calibration import ReferenceData
from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.measure.traffic_runner import MeasureContext
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import EndEvidence, ManagementTraffic
from pytest_pinet.model.record.change import TurnRecord
from pytest_pinet.model.traffic import Direction
from pytest_pinet.traffic.iperf3 import Iperf3
from tests.support.link_stand_in import TX, flow, link, one_connection

UNCOUNTED = "ssh, or an NFS root, of one:onboard uses the interface under test, but its octets were not counted"


class Traffic:
    """Replaces the traffic of one turn: its octets in a second, and the share of it that ssh of the first end had."""

    payload, share = 1_448_000, 0.0

    def __init__(self, context: MeasureContext, lasts_s: float) -> None:
        self.connections: list[Connection] = []
        self.conditions = SimpleNamespace(before=())
        self.management = SimpleNamespace(uncounted=[UNCOUNTED])

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None: ...

    def again(self, *_: object) -> None:
        end = EndEvidence("one:onboard", "eth0", management=ManagementTraffic(1000, 2.0, self.share))
        self.connections.append(replace(one_connection(flow(payload=self.payload)), evidence=(end,)))

    def finish(self, *_: object) -> None: ...


class Measured:
    """A gate call over several boots."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pytest_pinet.ab.series.Runs", Traffic)
        self._patch, self._context = monkeypatch, MeasureContext(link(folder), Iperf3())
        self.series = TurnSeries(TX, Rules({Direction.TX: 0.01}, ReferenceData(), 0.01, lambda: 1, 16), 2)

    def turn(self, side: Side, share: float, payload: int = 1_448_000) -> None:
        """Measure one turn in which ssh had this share of the traffic."""
        self._patch.setattr(Traffic, "share", share)
        self._patch.setattr(Traffic, "payload", payload)
        number = len(self.series.turns) + 1
        turn = TurnRecord(number=number, side=str(side), started_s=0.0, seconds=0.0, running={}, trouble="")
        self.series.take(self._context, MadeBoot("one", turn))

    def notes(self) -> list[str]:
        options = SimpleNamespace(name=str, build=lambda side: None)
        record = changed_record(self.series, options, [])  # type: ignore[arg-type]
        # A node without `ss` is not silent about it.
        assert UNCOUNTED in record.notes
        return [note for note in record.notes if "(at most 0.1 % is allowed)" in note]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    return Measured(tmp_path, monkeypatch)


@pytest.mark.parametrize(("share", "notes"), [(0.0009, 0), (0.002, 1)])
def test_a_share_from_a_thousandth_on_is_in_the_notes(measured: Measured, share: float, notes: int) -> None:
    measured.turn(Side.A, share)
    assert len(measured.notes()) == notes


def test_a_share_above_a_hundredth_is_invalid_at_once(measured: Measured) -> None:
    with pytest.raises(InvalidMeasurement, match=r"used its interface, too: 2 % of the measured traffic \(at most 1 %"):
        measured.turn(Side.A, 0.02)


def test_constant_octets_of_ssh_beside_a_slow_build_are_no_trouble(measured: Measured) -> None:
    """B is eight times as slow, so the same octets of ssh are eight times their share of A."""
    measured.turn(Side.A, 0.004)
    measured.turn(Side.B, 0.032, payload=181_000)
    assert [len(turn.kept) for turn in measured.series.turns] == [2, 2]
    (note,) = measured.notes()
    assert "too: 0.4 % of the rate of A (at most 0.1 %" in note


def test_more_octets_of_ssh_beside_a_slow_build_are_invalid(measured: Measured) -> None:
    measured.turn(Side.A, 0.004)
    with pytest.raises(InvalidMeasurement, match=r"used its interface, too: 1\.2 % of the rate of A \(at most 1 %"):
        measured.turn(Side.B, 0.096, payload=181_000)
