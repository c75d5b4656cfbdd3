"""Octets of ssh on the interface under test, in a gate of builds: a note from 0.1 % on, an invalid value above 1 %."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_pinet.ab.boots import MadeBoot
from pytest_pinet.ab.records import changed_record
from pytest_pinet.ab.series import Rules, TurnSeries
from pytest_pinet.config.reference_data import ReferenceData
from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.judge.attempts import Try
from pytest_pinet.judge.interleaved import Side
from pytest_pinet.measure.traffic_runner import MeasureContext
from pytest_pinet.model.evidence import EndEvidence, ManagementTraffic
from pytest_pinet.model.traffic import Direction
from pytest_pinet.traffic.iperf3 import Iperf3
from tests.support.link_stand_in import TX, flow, link, one_try

UNCOUNTED = "ssh, or an NFS root, of one:onboard uses the interface under test, but its octets were not counted"


class Traffic:
    """Replaces the traffic of one turn: the ssh of the device under test had this share of it."""

    share = 0.0

    def __init__(self, context: MeasureContext, lasts_s: float) -> None:
        self.tries: list[Try] = []
        self.conditions = SimpleNamespace(before=())
        self.management = SimpleNamespace(uncounted=[UNCOUNTED])

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None: ...

    def again(self, *_: object) -> None:
        end = EndEvidence("one:onboard", "eth0", management=ManagementTraffic(1000, 2.0, self.share))
        self.tries.append(replace(one_try(flow()), evidence=(end,)))

    def finish(self, *_: object) -> None: ...


def turn(folder: Path, monkeypatch: pytest.MonkeyPatch, share: float) -> TurnSeries:
    """Measure one turn in which ssh had this share of the traffic."""
    monkeypatch.setattr("pytest_pinet.ab.series.Runs", Traffic)
    monkeypatch.setattr(Traffic, "share", share)
    rules = Rules({Direction.TX: 0.01}, ReferenceData(), 0.01, lambda: 1, 16)
    series = TurnSeries(TX, rules, 2)
    series.take(MeasureContext(link(folder), Iperf3()), MadeBoot("one", 1, Side.A, 0.0))
    return series


@pytest.mark.parametrize(("share", "notes"), [(0.0009, 0), (0.002, 1)])
def test_a_share_from_a_thousandth_on_is_in_the_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, notes: int
) -> None:
    series = turn(tmp_path, monkeypatch, share)
    options = SimpleNamespace(name=str, build=lambda side: None)
    record = changed_record(series, options, [])  # type: ignore[arg-type]
    found = [note for note in record.notes if "(at most 0.1 % is allowed)" in note]
    assert len(found) == notes
    # A node without `ss` is not silent about it.
    assert UNCOUNTED in record.notes


def test_a_share_above_a_hundredth_is_invalid_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidMeasurement, match=r"used its interface, too: 2 % of the measured traffic \(at most 1 %"):
        turn(tmp_path, monkeypatch, 0.02)
