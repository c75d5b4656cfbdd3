"""What differs between the ends of two runs is named, also if only the peer changed; the history keeps it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from pytest_pinet.history.history import open_history
from pytest_pinet.history.lines import import_lines, lines_of
from pytest_pinet.history.settings import ONLY_PEER, settings_differences
from tests.support.history_records import FIGURE, day, kept, with_result

GRO = "generic-receive-offload"
DUT = {"end": "pi4b-1:onboard", GRO: "on", "kernel": "6.12.25", "governor": "ondemand"}
PEER = {"end": "pi4b-2:onboard", GRO: "on", "command line": "console=tty1 quiet isolcpus=3", "kernel": "6.12.25"}
BEFORE = {"dut": DUT, "peer": PEER}
FAST = {**DUT, "governor": "performance"}
THIRD = {**PEER, "end": "pi4b-3:onboard"}


@pytest.mark.parametrize(
    ("after", "same", "differs"),
    [
        (BEFORE, True, ()),
        ({"dut": DUT, "peer": {**PEER, GRO: "off"}}, True, (f"{GRO} on -> off at pi4b-2", ONLY_PEER)),
        # The build of the device under test differs as well.
        ({"dut": DUT, "peer": {**PEER, GRO: "off"}}, False, (f"{GRO} on -> off at pi4b-2",)),
        (
            {"dut": FAST, "peer": PEER},
            True,
            ("governor ondemand -> performance at pi4b-1",),
        ),
        (
            {"dut": DUT, "peer": {**PEER, "command line": "console=tty1 quiet nohz=off"}},
            True,
            ("command line isolcpus=3 -> nohz=off at pi4b-2", ONLY_PEER),
        ),
        (
            {"dut": DUT, "peer": THIRD},
            True,
            ("peer pi4b-2:onboard -> pi4b-3:onboard", ONLY_PEER),
        ),
        # The kernel of the device under test is named with its build.
        ({"dut": {**DUT, "kernel": "6.18"}, "peer": PEER}, True, ()),
        # What one side does not report is no difference, also in runs of older releases.
        ({"dut": {"end": "pi4b-1:onboard"}, "peer": PEER}, True, ()),
        ({}, True, ()),
    ],
)
def test_differences_are_named_with_their_node(
    after: Mapping[str, Mapping[str, str]], same: bool, differs: tuple[str, ...]
) -> None:
    assert settings_differences(BEFORE, after, same) == differs


def test_exported_runs_keep_their_settings(tmp_path: Path) -> None:
    runs = kept([with_result(day(1), settings=BEFORE), day(2)])
    text = "".join(f"{line.rstrip()}\n" for line in lines_of(runs))
    store = open_history(str(tmp_path / "h.db"), create=True)
    assert import_lines(store, io.StringIO(text), "here", pytest.fail) == (2, 2)
    points = store.trend(FIGURE).points
    assert [point.settings for point in points] == [BEFORE, {}]
    assert points[1].time - points[0].time == timedelta(days=1)
