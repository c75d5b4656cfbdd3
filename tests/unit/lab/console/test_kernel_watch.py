"""The effect of a finding: failure on the device under test, lab error on a peer, invalid for a weak power supply."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement, KernelError, LabError, PinetError
from pytest_pinet.lab.console.kernel_watch import KernelWatch, SshKernelLog
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind
from tests.support.local_shell import LocalShell

OOPS = b"[ 7.1] Unable to handle kernel paging request at virtual address dead000000000100\n"
LOW = b"hwmon hwmon1: Undervoltage detected!\n"
NORMAL = b"hwmon hwmon1: Voltage normalised\n"


class Bench:
    def __init__(self) -> None:
        self.dut, self.peer = ConsoleRecord("pi4b-1"), ConsoleRecord("cm4-1")

    def watch(self) -> KernelWatch:
        return KernelWatch({"pi4b-1": self.dut, "cm4-1": self.peer}, {"pi4b-1"})


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_without_findings_no_error_is_raised(bench: Bench) -> None:
    watch = bench.watch()
    bench.dut.feed(b"[ 1.0] all is well\n")
    watch.check()
    watch.interrupt()
    watch.last_look()
    assert watch.broken == set()


def test_an_event_on_the_device_under_test_is_a_kernel_error(bench: Bench) -> None:
    watch = bench.watch()
    bench.dut.feed(b"before\n" + OOPS + b"Call trace:\n")
    with pytest.raises(
        KernelError, match=r"^kernel oops on pi4b-1 \(device under test\) at \S+Z: \[7.1\] Unable to handle kernel"
    ) as caught:
        watch.check()
    assert [line.partition(" ")[2] for line in caught.value.excerpt.splitlines()] == [
        "before",
        OOPS.decode().strip(),
        "Call trace:",
    ]
    assert watch.broken == {"pi4b-1"}


def test_an_event_on_a_peer_is_a_lab_error(bench: Bench) -> None:
    watch = bench.watch()
    bench.peer.feed(OOPS)
    with pytest.raises(
        LabError, match=r"^kernel oops on cm4-1 \(peer\) at (?s:.*)-> the kernel of a peer is not under test"
    ) as caught:
        watch.check()
    assert "Unable to handle kernel" in caught.value.excerpt
    assert watch.broken == {"cm4-1"}


@pytest.mark.parametrize("node", ["dut", "peer"])
def test_under_voltage_anywhere_makes_the_measurement_invalid(bench: Bench, node: str) -> None:
    watch = bench.watch()
    record: ConsoleRecord = getattr(bench, node)
    # It ended at once, and throttled the measurement meanwhile.
    record.feed(LOW + NORMAL)
    expected = rf"^under-voltage on {record.node} \(.*\) at (?s:.*)-> check the power supply of {record.node}"
    with pytest.raises(InvalidMeasurement, match=expected) as caught:
        watch.check()
    assert "Undervoltage" in caught.value.excerpt
    assert watch.broken == set()


def test_an_under_voltage_before_the_test_counts_only_if_it_lasts(bench: Bench) -> None:
    bench.dut.feed(LOW + NORMAL)
    bench.watch().check()
    bench.dut.feed(LOW)
    for _ in range(2):
        with pytest.raises(
            InvalidMeasurement,
            match=r"^under-voltage on pi4b-1 .* since before the test, reported at ",
        ):
            bench.watch().check()


def test_a_restart_counts_only_during_the_test(bench: Bench) -> None:
    banner = b"[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd083]\n"
    bench.dut.feed(banner)
    watch = bench.watch()
    watch.check()
    bench.dut.feed(banner)
    with pytest.raises(KernelError, match=re.escape("pi4b-1 (device under test) restarted by itself at ")):
        watch.check()


def test_an_oops_during_the_boot_is_raised_in_the_test(bench: Bench) -> None:
    bench.dut.feed(OOPS)
    with pytest.raises(KernelError):
        bench.watch().check()


def test_check_raises_again_and_interrupt_raises_once(bench: Bench) -> None:
    watch = bench.watch()
    bench.dut.feed(OOPS)
    raised: list[PinetError] = []
    for _ in range(2):
        with pytest.raises(KernelError) as caught:
            watch.check()
        raised.append(caught.value)
    assert raised[0] is raised[1]
    watch.interrupt()
    # The excerpt of the first finding contains its consequences.
    bench.dut.feed(b"Kernel panic - not syncing: Oops: Fatal exception\n")
    watch.interrupt()
    watch.last_look()


def test_a_disarmed_watch_does_not_interrupt_but_still_checks(bench: Bench) -> None:
    watch = bench.watch()
    watch.disarm()
    bench.dut.feed(OOPS)
    watch.interrupt()
    with pytest.raises(KernelError):
        watch.last_look()


def test_the_earlier_of_two_findings_is_raised(bench: Bench) -> None:
    watch = bench.watch()
    bench.peer.feed(OOPS)
    bench.dut.feed(OOPS)
    with pytest.raises(LabError, match="cm4-1"):
        watch.check()
    assert watch.broken == {"cm4-1", "pi4b-1"}


def test_only_messages_since_the_start_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    (tmp_path / "dmesg").write_text(f"#!/bin/sh\ncat {log}\n")
    (tmp_path / "dmesg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    log.write_text("[    1.5] Internal error: Oops: 96000004 [#1] SMP\n[   12.250000] eth0: link is up\n")
    kernel = SshKernelLog("pi", LocalShell("pi"))
    kernel.look()
    assert not kernel.record.findings
    with log.open("a") as file:
        file.write("[  100.000001] Unable to handle kernel paging request at virtual address 0000\n")
    kernel.look()
    kernel.look()
    (found,) = kernel.record.findings
    assert (found.kind, found.node) == (KernelEventKind.OOPS, "pi")
    assert "[100.000001] Unable to handle kernel paging request" in str(found)
