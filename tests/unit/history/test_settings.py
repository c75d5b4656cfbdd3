"""What differs between the ends of two runs is named, also if only the peer changed; the history keeps it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.history.differences import settings_differences
from pytest_pinet.history.history import import_lines, lines_of, open_history
from pytest_pinet.history.trends import ONLY_PEER, differences_of
from tests.support.history_records import FIGURE, day, kept, points_in, with_result

GRO = "generic-receive-offload"
DUT = {"end": "pi4b-1:onboard", GRO: "on", "kernel": "6.12.25", "governor": "ondemand", "lro": "off"}
PEER = {
    "end": "pi4b-2:onboard",
    GRO: "on",
    "command line": "console=tty1 quiet isolcpus=3",
    "governor": "ondemand",
    "lro": "off",
}
BEFORE = {"dut": DUT, "peer": PEER}
FAST = {**DUT, "governor": "performance"}
THIRD = {**PEER, "end": "pi4b-3:onboard"}
SERIALS = {"pi4b-1:onboard": "AAAA", "pi4b-2:onboard": "BBBB"}
VERSIONS = {"dut": "3.16", "peer": "3.16"}


AT_PEER = f"{GRO} on -> off at pi4b-2"
OFF = {**PEER, GRO: "off"}


def without(end: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in end.items() if key != name}


@pytest.mark.parametrize(
    ("after", "differs"),
    [
        (BEFORE, ()),
        ({"dut": DUT, "peer": OFF}, (AT_PEER,)),
        ({"dut": FAST, "peer": PEER}, ("governor ondemand -> performance at pi4b-1",)),
        (
            {"dut": DUT, "peer": {**PEER, "command line": "console=tty1 quiet nohz=off"}},
            ("command line isolcpus=3 -> nohz=off at pi4b-2",),
        ),
        # Another interface has other settings: only settings that both have are compared.
        ({"dut": DUT, "peer": without(THIRD, "governor")}, ("peer pi4b-2:onboard -> pi4b-3:onboard",)),
        # The kernel of the device under test is named with its build.
        ({"dut": {**DUT, "kernel": "6.18"}, "peer": PEER}, ()),
        # The end does not have the setting any more: the same run recorded it at the other end.
        ({"dut": without(DUT, "governor"), "peer": PEER}, ("governor ondemand -> absent at pi4b-1",)),
        # A run that recorded a setting at no end is perhaps of a release that did not read the setting.
        ({"dut": without(DUT, "governor"), "peer": without(PEER, "governor")}, ()),
        # What is off and what is absent are the same for a packet.
        ({"dut": without(DUT, "lro"), "peer": PEER}, ()),
        ({}, ()),
    ],
)
def test_differences_are_named_with_their_node(
    after: Mapping[str, Mapping[str, str]], differs: tuple[str, ...]
) -> None:
    assert settings_differences(BEFORE, after) == differs


def test_a_setting_that_an_end_has_now_was_absent() -> None:
    older = {"dut": without(DUT, "governor"), "peer": PEER}
    assert settings_differences(older, BEFORE) == ("governor absent -> ondemand at pi4b-1",)


@pytest.mark.parametrize(
    ("values", "differs"),
    [
        ({"settings": {"dut": DUT, "peer": OFF}}, (AT_PEER, ONLY_PEER)),
        ({"settings": {"dut": DUT, "peer": THIRD}}, ("peer pi4b-2:onboard -> pi4b-3:onboard", ONLY_PEER)),
        ({"serials": {**SERIALS, "pi4b-2:onboard": "CCCC"}}, ("board of pi4b-2:onboard BBBB -> CCCC", ONLY_PEER)),
        ({"versions": {**VERSIONS, "peer": "3.18"}}, ("iperf3 of peer 3.16 -> 3.18", ONLY_PEER)),
        ({}, ()),
        # Something of the device under test differs, too: its board, tool, build, a setting, or another of its NICs.
        (
            {"settings": {"dut": DUT, "peer": OFF}, "serials": {**SERIALS, "pi4b-1:onboard": "CCCC"}},
            ("board of pi4b-1:onboard AAAA -> CCCC", AT_PEER),
        ),
        (
            {"settings": {"dut": DUT, "peer": OFF}, "versions": {**VERSIONS, "dut": "3.18"}},
            ("iperf3 of dut 3.16 -> 3.18", AT_PEER),
        ),
        (
            {"settings": {"dut": DUT, "peer": OFF}, "build": {"uname": "Linux 6.18.1 #1 SMP aarch64"}},
            ("kernel 6.12.25-v8+ -> 6.18.1", AT_PEER),
        ),
        (
            {"settings": {"dut": FAST, "peer": OFF}},
            ("governor ondemand -> performance at pi4b-1", AT_PEER),
        ),
        (
            {"settings": {"dut": DUT, "peer": OFF, "end 2": {"end": "pi4b-1:usb", GRO: "on"}}},
            (AT_PEER,),
        ),
        # Whether it differs is not known: one of the runs did not record it.
        ({"settings": {"dut": without(DUT, "lro"), "peer": OFF}}, (AT_PEER,)),
        ({"settings": {"dut": DUT, "peer": OFF}, "serials": {}}, (AT_PEER,)),
        ({"settings": {"peer": OFF}}, (AT_PEER,)),
    ],
)
def test_only_the_peer_changed_is_said_if_nothing_of_the_device_under_test_did(
    values: dict[str, Any], differs: tuple[str, ...]
) -> None:
    recorded = {"settings": BEFORE, "serials": SERIALS, "versions": VERSIONS}
    before, at = points_in([with_result(day(1), **recorded), with_result(day(2), **{**recorded, **values})])
    assert differences_of(before, at) == differs


def test_exported_runs_keep_their_settings(tmp_path: Path) -> None:
    runs = kept([with_result(day(1), settings=BEFORE), day(2)])
    text = "".join(f"{line.rstrip()}\n" for line in lines_of(runs))
    with open_history(str(tmp_path / "h.db"), create=True) as store:
        assert import_lines(store, io.StringIO(text), "here", pytest.fail) == (2, 2)
        points = store.trend(FIGURE).points
    assert [point.settings for point in points] == [BEFORE, {}]
    assert points[1].time - points[0].time == timedelta(days=1)
