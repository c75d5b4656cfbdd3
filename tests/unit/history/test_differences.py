"""What differs between two runs: settings and builds."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.evidence.build import read_end
from pytest_pinet.execution.shell import Completed
from pytest_pinet.history.compare import RunSet, compared
from pytest_pinet.history.differences import Settings, settings_differences
from pytest_pinet.history.history import import_lines, lines_of, open_history
from pytest_pinet.history.text import change_lines
from pytest_pinet.history.trends import ONLY_PEER, differences_of
from pytest_pinet.report.sentences import comparison_table
from tests.support.history_records import FIGURE, day, kept, points_in, with_result
from tests.support.local_shell import LocalShell

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


# What the programs of a board print, by their command lines, and the content of its files.
PROGRAMS = {
    "ethtool -k eth0": "Features for eth0:\ntcp-segmentation-offload: on\nlarge-receive-offload: off [fixed]\n",
    "ethtool -c eth0": "Coalesce parameters for eth0:\nAdaptive RX: n/a  TX: n/a\nrx-usecs: 50\n",
    "ethtool -g eth0": "Pre-set maximums:\nRX: 1024\nTX: 512\nCurrent hardware settings:\nRX: 256\nTX: 256\n",
    "ethtool -a eth0": "Pause parameters for eth0:\nAutonegotiate: on\nRX: on\nTX: off\n",
    "ethtool -l eth0": "Pre-set maximums:\nRX: 4\nTX: 4\nCurrent hardware settings:\nRX: 4\nTX: 1\n",
    "ethtool -i eth0": "driver: bcmgenet\nversion: 6.12\nfirmware-version: 1.0\n",
    "ethtool --show-eee eth0": "EEE settings for eth0:\n\tEEE status: enabled - active\n",
    "tc qdisc show dev eth0": "qdisc tbf 8001: root refcnt 2 rate 100Mbit burst 32Kb lat 50ms\n",
    "vcgencmd version": "Jan  1 2026\nversion abc (clean)\n",
    "vcgencmd bootloader_version": "2026/01/01\nversion def (release)\n",
    "uname -rv": "6.12.25 #1 SMP\n",
}
FILES = {
    "proc/cmdline": "console=tty1 quiet\n",
    "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
    "proc/sys/net/core/default_qdisc": "fq_codel\n",
    "proc/interrupts": "           CPU0\n 30:  7  GICv2  eth0\n 31:  9  GICv2  eth0-tx\n 40:  1  GICv2  mmc0\n",
    "proc/irq/30/smp_affinity_list": "0\n",
    "proc/irq/31/smp_affinity_list": "1\n",
    "proc/irq/40/smp_affinity_list": "0-3\n",
    "proc/sys/net/core/busy_poll": "0\n",
    "proc/sys/net/core/netdev_budget_usecs": "8000\n",
    "proc/sys/net/core/rps_sock_flow_entries": "0\n",
    "proc/sys/net/ipv4/tcp_moderate_rcvbuf": "1\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "ondemand\n",
    "sys/devices/system/cpu/cpufreq/policy4/scaling_governor": "ondemand\n",
    "sys/class/net/eth0/gro_flush_timeout": "0\n",
    "sys/class/net/eth0/napi_defer_hard_irqs": "0\n",
    "sys/class/net/eth0/threaded": "0\n",
    "sys/class/net/eth0/queues/rx-0/rps_flow_cnt": "0\n",
    "sys/class/net/eth0/queues/rx-0/rps_cpus": "0\n",
    "sys/class/net/eth0/queues/tx-0/xps_cpus": "f\n",
}


class Board(LocalShell):
    """A board whose files and programs stand in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__("pi4b-2")
        self.folder = folder
        self.commands: list[str] = []
        for name, text in FILES.items():
            self.write(name, text)
        for program in {line.split()[0] for line in PROGRAMS}:
            self.write(f"bin/{program}", f'#!/bin/sh\ncat "{folder}/said/{program} $*"\n')
            (folder / "bin" / program).chmod(0o755)
        for line, text in PROGRAMS.items():
            self.write(f"said/{line}", text)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        self.commands.append(command)
        here = command.replace("PATH=$PATH:/usr/sbin:/sbin", f"PATH={self.folder}/bin:$PATH")
        for root in ("/proc/", "/sys/class/", "/sys/devices/"):
            here = here.replace(root, f"{self.folder}{root}")
        done = super().run(here, timeout_s)
        return Completed(done.returncode, done.stdout.replace(str(self.folder), ""), done.stderr)


def said(line: str, old: str, new: str) -> Callable[[Board], None]:
    assert old in PROGRAMS[line]
    return lambda board: board.write(f"said/{line}", PROGRAMS[line].replace(old, new))


def file(name: str, text: str) -> Callable[[Board], None]:
    assert name in FILES
    return lambda board: board.write(name, text)


CHANGES: dict[str, Callable[[Board], None]] = {
    "command line quiet -> isolcpus=3": file("proc/cmdline", "console=tty1 isolcpus=3\n"),
    "tcp-segmentation-offload on -> off": said("ethtool -k eth0", "offload: on", "offload: off"),
    "coalescing rx-usecs 50 -> 0": said("ethtool -c eth0", "rx-usecs: 50", "rx-usecs: 0"),
    "ring RX 256 -> 64": said("ethtool -g eth0", "RX: 256", "RX: 64"),
    "pause TX off -> on": said("ethtool -a eth0", "TX: off", "TX: on"),
    "channels TX 1 -> 4": said("ethtool -l eth0", "TX: 1\n", "TX: 4\n"),
    "EEE enabled -> disabled": said("ethtool --show-eee eth0", "enabled - active", "disabled"),
    "qdiscs tbf root rate 100Mbit burst 32Kb lat 50ms -> tbf root rate 500Mbit burst 32Kb lat 50ms": said(
        "tc qdisc show dev eth0", "100Mbit", "500Mbit"
    ),
    "net.core.default_qdisc fq_codel -> pfifo_fast": file("proc/sys/net/core/default_qdisc", "pfifo_fast\n"),
    "net.ipv4.tcp_rmem 4096 131072 6291456 -> 4096 65536 65536": file(
        "proc/sys/net/ipv4/tcp_rmem", "4096\t65536\t65536\n"
    ),
    "net.core.busy_poll 0 -> 50": file("proc/sys/net/core/busy_poll", "50\n"),
    "net.core.netdev_budget_usecs 8000 -> 2000": file("proc/sys/net/core/netdev_budget_usecs", "2000\n"),
    "net.core.rps_sock_flow_entries 0 -> 32768": file("proc/sys/net/core/rps_sock_flow_entries", "32768\n"),
    "net.ipv4.tcp_moderate_rcvbuf 1 -> 0": file("proc/sys/net/ipv4/tcp_moderate_rcvbuf", "0\n"),
    "gro_flush_timeout 0 -> 20000": file("sys/class/net/eth0/gro_flush_timeout", "20000\n"),
    "napi_defer_hard_irqs 0 -> 2": file("sys/class/net/eth0/napi_defer_hard_irqs", "2\n"),
    "threaded 0 -> 1": file("sys/class/net/eth0/threaded", "1\n"),
    "rx-0/rps_flow_cnt 0 -> 4096": file("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "4096\n"),
    "governor ondemand -> ondemand performance": file(
        "sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "performance\n"
    ),
    "IRQ CPUs 0 1 -> 0 3": file("proc/irq/31/smp_affinity_list", "3\n"),
    "rx-0/rps CPUs 0 -> e": file("sys/class/net/eth0/queues/rx-0/rps_cpus", "e\n"),
    "tx-0/xps CPUs f -> 1": file("sys/class/net/eth0/queues/tx-0/xps_cpus", "1\n"),
    "firmware version abc (clean) -> version xyz (clean)": said("vcgencmd version", "abc", "xyz"),
    "eeprom version def (release) -> version uvw (release)": said("vcgencmd bootloader_version", "def", "uvw"),
    "NIC firmware 1.0 -> 1.1": said("ethtool -i eth0", "firmware-version: 1.0", "firmware-version: 1.1"),
    "driver version 6.12 -> 6.13": said("ethtool -i eth0", "version: 6.12", "version: 6.13"),
    "kernel 6.12.25 #1 SMP -> 6.12.26 #1 SMP": said("uname -rv", "6.12.25", "6.12.26"),
}


def changed(words: str, folder: Path) -> tuple[Settings, Settings]:
    """Return the settings of both ends before and after a change of the peer."""
    board = Board(folder)
    dut = {"end": "pi4b-1:onboard", **read_end(board, "eth0")}
    before = {"dut": dut, "peer": {**dut, "end": "pi4b-2:onboard"}}
    CHANGES[words](board)
    return before, {"dut": dut, "peer": {"end": "pi4b-2:onboard", **read_end(board, "eth0")}}


@pytest.mark.parametrize("words", CHANGES)
def test_a_change_of_the_setting_is_recorded_and_named(words: str, tmp_path: Path) -> None:
    assert settings_differences(*changed(words, tmp_path)) == (f"{words} at pi4b-2",)


@pytest.mark.parametrize("words", list(CHANGES)[:8:7])
def test_a_change_of_a_setting_is_shown_with_a_change_of_the_level(words: str, tmp_path: Path) -> None:
    before, after = changed(words, tmp_path / "board")
    differs = (f"{words} at pi4b-2", ONLY_PEER)

    runs = [with_result(day(n, 941.0 + 0.1 * (n % 3)), settings=before) for n in range(8)]
    runs += [with_result(day(n, 860.0 + 0.1 * (n % 3)), settings=after) for n in range(8, 16)]
    with open_history(str(tmp_path / "h.db"), create=True) as store:
        store.add_all(kept(runs))
        trend = store.trend(FIGURE)
    (change,), points = trend.changes, trend.points
    assert change.differs == differs
    assert "; ".join(differs) in " ".join(" ".join(change_lines(change)).split())
    a, b = RunSet("old", points[:8]), RunSet("new", points[8:])
    table = " ".join(" ".join(comparison_table(a, b, compared(a, b, 0.03))).split())
    assert all(f"differs: {text}" in table for text in differs)
    assert table.count("differs: ") == len(differs)


def test_an_interrupt_of_another_device_and_a_link_that_sleeps_are_no_change(tmp_path: Path) -> None:
    board = Board(tmp_path)
    before = read_end(board, "eth0")
    board.write("proc/irq/40/smp_affinity_list", "3\n")
    said("ethtool --show-eee eth0", "enabled - active", "enabled - inactive")(board)
    said("ethtool -l eth0", "RX: 4\nTX: 4", "RX: 8\nTX: 8")(board)
    assert read_end(board, "eth0") == before


def test_an_end_is_read_by_one_command_that_leaves_out_what_is_missing(tmp_path: Path) -> None:
    board = Board(tmp_path)
    said("ethtool -i eth0", "firmware-version: 1.0", "firmware-version: ")(board)
    (tmp_path / "said" / "vcgencmd bootloader_version").unlink()
    shutil.rmtree(tmp_path / "proc" / "irq")
    found = read_end(board, "eth0")
    assert len(board.commands) == 1
    expected = {"driver": "bcmgenet", "driver version": "6.12", "command line": "console=tty1 quiet", "ring RX": "256"}
    assert expected.items() <= found.items()
    assert not {"NIC firmware", "eeprom", "IRQ CPUs"} & found.keys()
