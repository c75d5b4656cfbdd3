"""Reads all evidence sources before and after traffic, on this machine and on a node with stand-in commands."""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.evidence import collecting, other_work
from pytest_pinet.evidence.collecting import Collector, EndReader, script, sections
from pytest_pinet.execution.shell import Completed, Process
from pytest_pinet.model.evidence import EndEvidence, Throttling
from tests.support.local_shell import LocalShell

PI = {
    "vcgencmd": 'case $1 in measure_clock) echo "frequency(48)=600117184";; *) echo "throttled=0x0";; esac',
    "ethtool": 'echo "NIC statistics:"; echo "     rx_packets: $(date +%s%N)"',
    "dmesg": 'echo "[    0.500000] usb0: kevent 4 may have been dropped"',
}


def node(folder: Path, commands: dict[str, str] = PI) -> LocalShell:
    """Return this machine's shell with these additional commands."""
    for name, text in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return LocalShell("pi", env={"PATH": f"{folder}:{os.environ['PATH']}"})


def test_one_command_reads_every_source_nearest_to_the_traffic_first() -> None:
    before, after = script("eth0"), script("eth0", 12.3)
    names = ["/proc/stat", "/proc/softirqs", "/proc/interrupts", "/proc/net/softnet_stat", "ethtool -S", "dmesg"]
    assert sorted(names, key=after.index) == names
    assert max(names, key=before.index) == "/proc/stat"
    assert (before.count("grep -H"), after.count("grep -H")) == (1, 1)
    assert "since=12.30" in after


def test_sections_are_separated_by_their_markers() -> None:
    text = (
        "noise\n@@pinet ethtool\n1\n2\n@@pinet \n/proc/uptime:1.2 3\n/proc/stat:cpu0 1 2\n"
        "/sys/class/net/eth0/statistics/rx_bytes:5\n/sys/class/net/eth0/carrier_changes:1\n/odd:1\n"
        "/sys/devices/platform/soc/soc:firmware/get_throttled:50000\n@@pinet heat\nfrequency(48)=1\n"
    )
    assert sections(text, "eth0") == {
        "ethtool": "1\n2",
        "stat": "1.2 3\ncpu0 1 2",
        "interface": "/sys/class/net/eth0/statistics/rx_bytes:5\n/sys/class/net/eth0/carrier_changes:1",
        "heat": "/sys/devices/platform/soc/soc:firmware/get_throttled:50000\nfrequency(48)=1",
    }


def test_this_machine_tells_what_it_has() -> None:
    reader = EndReader(LocalShell("here"), "lo", "here:lo")
    start = time.monotonic()
    reader.before(1)
    time.sleep(0.3)
    found = reader.after(1, 0.3)
    assert found.window_s is not None
    # An uptime has two decimals.
    assert 0.28 < found.window_s < time.monotonic() - start + 0.02
    assert len(found.processors or ()) == os.cpu_count()
    assert all(0 <= load.busy <= 1 for load in found.processors or ())
    assert found.softnet is not None
    assert found.softnet["processed"]
    assert found.interface is not None
    assert "rx_bytes" in found.interface
    assert found.restarted == ()
    raw = reader.raw
    assert {"stat", "softirqs", "interrupts", "softnet", "interface"} <= set(raw)
    assert raw["stat"].startswith("# before try 1, ")
    assert "# after try 1, " in raw["stat"]


def test_a_node_with_firmware_tells_its_clock_under_load(tmp_path: Path) -> None:
    collector = Collector([EndReader(node(tmp_path), "lo", "pi:lo")])
    collector.before(3)
    looks: list[int] = []
    look = collector.watching(lambda: looks.append(1), traffic_s=0.2)
    # The reading is due after half of the traffic.
    while len(looks) < 10:
        look()
        time.sleep(0.02)
    (found,) = collector.after(0.3)
    assert found.under_load is not None
    assert found.under_load.clock_mhz == pytest.approx(600.117184)
    assert found.under_load.throttling == Throttling(0)
    assert found.nic is not None
    assert found.nic["rx_packets"] > 0
    assert "# during try 3, " in collector.raw()["0-heat.txt"]


def test_only_later_lines_of_the_log_are_read(tmp_path: Path) -> None:
    # The log has its own clock, here far behind the uptime.
    reader = EndReader(node(tmp_path), "lo", "pi:lo")
    reader.before(1)
    node(tmp_path, {"dmesg": f"{PI['dmesg']}; echo '[    0.500001] eth0: hw csum failure'"})
    assert reader.after(1, 0.1).kernel == ("[    0.500001] eth0: hw csum failure",)
    reader.before(2)
    assert reader.after(2, 0.1).kernel == ()


def test_all_later_lines_of_an_empty_log_are_read(tmp_path: Path) -> None:
    reader = EndReader(node(tmp_path, {"dmesg": ":"}), "lo", "pi:lo")
    reader.before(1)
    node(tmp_path, {"dmesg": "echo '[    0.5] eth0: hw csum failure'; echo '[99999999.5] eth0: Link is Down'"})
    assert reader.after(1, 0.1).kernel == ("[99999999.5] eth0: Link is Down",)


def test_a_try_that_broke_does_not_blind_the_next_one(tmp_path: Path) -> None:
    collector = Collector([EndReader(node(tmp_path), "lo", "pi:lo")], allowed_s=60)
    for number in (1, 2):
        collector.before(number)
        look = collector.watching(None, traffic_s=0.0)
        look()
        look()
    (found,) = collector.after(0.1)
    assert found.under_load is not None


def tried(collector: Collector, number: int) -> EndEvidence:
    """Collect evidence of one attempt with a reading in its middle."""
    collector.before(number)
    look = collector.watching(None, traffic_s=0.0)
    look()
    # Processor time is counted in ticks of 10 ms.
    time.sleep(0.05)
    look()
    (found,) = collector.after(0.1)
    return found


def test_readings_of_many_tries_stay_within_what_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock of which each reading takes 0.1 s, however busy this machine is.
    ticks = count()
    monkeypatch.setattr(collecting, "time", SimpleNamespace(monotonic=lambda: next(ticks) * 0.1))
    collector = Collector([EndReader(node(tmp_path), "lo", "pi:lo")], allowed_s=1.0)
    found = [tried(collector, number) for number in range(1, 9)]
    # After four attempts with two readings each, the fifth with the reading at the end would take 1.1 s.
    assert [number for number, one in enumerate(found, 1) if one.processors is not None] == [1, 2, 3, 4]
    assert collector.spent_s == pytest.approx(0.8)
    # Every attempt shows a clock that drops under load, at no cost.
    assert all(one.under_load is not None and one.under_load.throttling == Throttling(0) for one in found)


def test_attempts_not_read_separately_are_read_together_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_work, "LEAST_WINDOW_S", 0.1)
    collector = Collector([EndReader(node(tmp_path), "lo", "pi:lo")], allowed_s=0.0)
    assert tried(collector, 1).nic is not None
    node(tmp_path, {"dmesg": f"{PI['dmesg']}; echo '[    0.500001] eth0: hw csum failure'"})
    for number in (2, 3):
        assert tried(collector, number).kernel is None
    (rest,) = collector.rest(0.1)
    assert rest.kernel == ("[    0.500001] eth0: hw csum failure",)
    assert (rest.first_connection, rest.processors) == (2, None)
    assert rest.nic is not None
    assert rest.softnet is not None
    assert rest.under_load is not None
    assert rest.after is not None
    assert "# after try 3, " in collector.raw()["0-kernel.txt"]
    # What other programs took between the attempts counts, too.
    assert rest.others is not None
    # No reading is pending, and the next attempt is read again.
    assert collector.rest(0.1) == ()
    assert tried(collector, 4).processors is not None
    # So is the repetition of an attempt that was set aside.
    collector.renew()
    assert tried(collector, 5).processors is not None
    assert tried(collector, 6).processors is None


def test_log_lines_of_an_earlier_try_are_not_repeated_in_the_rest(tmp_path: Path) -> None:
    collector = Collector([EndReader(node(tmp_path), "lo", "pi:lo")], allowed_s=0.0)
    collector.before(1)
    node(tmp_path, {"dmesg": f"{PI['dmesg']}; echo '[    0.500001] eth0: hw csum failure'"})
    (first,) = collector.after(0.1)
    assert first.kernel == ("[    0.500001] eth0: hw csum failure",)
    tried(collector, 2)
    (rest,) = collector.rest(0.1)
    assert rest.kernel == ()


def test_a_log_that_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    reader = EndReader(node(tmp_path, {"dmesg": "exit 1", "sudo": "exit 1"}), "lo", "pi:lo")
    reader.before(1)
    assert reader.after(1, 0.1).kernel is None


def test_without_output_there_is_no_evidence(tmp_path: Path) -> None:
    shell = LocalShell("bare", env={"PATH": str(tmp_path)})
    reader = EndReader(shell, "no-such-device", "bare:eth0")
    reader.before(1)
    found = reader.after(1, 1.0)
    told = (found.processors, found.interrupts, found.softirqs, found.softnet, found.interface, found.nic, found.kernel)
    assert told == (None,) * 7
    assert (found.before, found.under_load, found.after, found.machine, found.window_s) == (None,) * 5


class Gone:
    """A node that does not answer."""

    name = "gone"

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        raise SshError("gone did not answer", "look")

    def spawn(self, command: str) -> Process:
        raise AssertionError("evidence needs no process that lasts")


def test_a_node_that_does_not_answer_raises_no_error_here() -> None:
    collector = Collector([EndReader(Gone(), "eth0", "gone:eth0")])
    collector.before(1)
    (found,) = collector.after(1.0)
    assert (found.end, found.processors) == ("gone:eth0", None)
    assert collector.raw() == {}
