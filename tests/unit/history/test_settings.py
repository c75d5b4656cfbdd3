"""What differs between the ends of two runs is named, also if only the peer changed; the history keeps it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from pytest_pinet.evidence.build import read_end
from pytest_pinet.execution.shell import Completed
from pytest_pinet.history.compare import RunSet, compared
from pytest_pinet.history.history import open_history
from pytest_pinet.history.lines import import_lines, lines_of
from pytest_pinet.history.settings import ONLY_PEER, settings_differences
from pytest_pinet.history.text import change_lines
from pytest_pinet.report.comparison_table import comparison_table
from tests.support.history_records import FIGURE, day, kept, with_result
from tests.support.local_shell import LocalShell

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


def test_a_level_that_moved_and_a_comparison_name_what_differs_at_the_peer(tmp_path: Path) -> None:
    slow = {"dut": DUT, "peer": {**PEER, GRO: "off"}}
    runs = [with_result(day(n, 941.0 + 0.1 * (n % 3)), settings=BEFORE) for n in range(8)]
    runs += [with_result(day(n, 860.0 + 0.1 * (n % 3)), settings=slow) for n in range(8, 16)]
    store = open_history(str(tmp_path / "h.db"), create=True)
    store.add_all(kept(runs))
    (change,) = store.trend(FIGURE).changes
    assert change.differs == (f"{GRO} on -> off at pi4b-2", ONLY_PEER)
    assert f"{GRO} on -> off at pi4b-2; {ONLY_PEER}" in " ".join(change_lines(change))

    points = store.trend(FIGURE).points
    a, b = RunSet("old", points[:8]), RunSet("new", points[8:])
    (found,) = rows = compared(a, b, 0.03)
    assert found.differs == change.differs
    table = comparison_table(a, b, rows)
    assert [line for line in table if line.startswith("differs: ")] == [f"differs: {text}" for text in change.differs]


def test_exported_runs_keep_their_settings(tmp_path: Path) -> None:
    runs = kept([with_result(day(1), settings=BEFORE), day(2)])
    text = "".join(f"{line.rstrip()}\n" for line in lines_of(runs))
    store = open_history(str(tmp_path / "h.db"), create=True)
    assert import_lines(store, io.StringIO(text), "here", pytest.fail) == (2, 2)
    points = store.trend(FIGURE).points
    assert [point.settings for point in points] == [BEFORE, {}]
    assert points[1].time - points[0].time == timedelta(days=1)


def test_an_end_is_read_by_one_command_that_leaves_out_what_is_missing(tmp_path: Path) -> None:
    tools = {
        "ethtool": 'case $1 in -k) echo "Features for $2:"; echo "generic-receive-offload: on";; -i) printf '
        '"driver: bcmgenet\\nversion: 6.12\\nfirmware-version: \\n";; --show-eee) '
        'echo "\tEEE status: enabled - active";;'
        ' -g) echo "RX: 256";; -a) echo "RX: on";; esac',
        "vcgencmd": 'case $1 in version) printf "Jan  1 2026\\nCopyright\\nversion abc (clean)\\n";; esac',
        "tc": 'echo "qdisc fq_codel 0: root refcnt 2"',
        "uname": 'echo "6.12.25-v8+ #1 SMP"',
    }
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    commands: list[str] = []

    class Node(LocalShell):
        def run(self, command: str, timeout_s: float = 10.0) -> Completed:
            commands.append(command)
            return super().run(command.replace("PATH=$PATH", f"PATH={tmp_path}:$PATH"), timeout_s)

    found = read_end(Node("pi"), "lo")
    assert len(commands) == 1
    expected = {
        GRO: "on",
        "driver": "bcmgenet",
        "driver version": "6.12",
        "EEE": "enabled",
        "ring RX": "256",
        "pause RX": "on",
        "firmware": "version abc (clean)",
        "qdisc": "fq_codel",
        "kernel": "6.12.25-v8+ #1 SMP",
    }
    assert expected.items() <= found.items()
    assert found["command line"] == " ".join(Path("/proc/cmdline").read_text(encoding="utf-8").split())
    assert "net.ipv4.tcp_rmem" in found
    assert not {"NIC firmware", "eeprom", "irq affinity"} & found.keys()
