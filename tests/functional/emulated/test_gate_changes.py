"""Real changes of a kernel and its driver on emulated boards: the gate finds each. tests/soak/ has more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import pytest

from benchmarks.virtual_time import busy_loops
from tests.support.emulated_gate import NEEDS, EmulatedGate, emulated_gate

pytestmark = [pytest.mark.emulated, pytest.mark.slow, *NEEDS]


@dataclass(frozen=True)
class Change:
    """A build, the tests that must find its change, and the tests that must not."""

    build: str
    slower: frozenset[str]
    unchanged: frozenset[str] = frozenset()

    @property
    def tests(self) -> str:
        return " or ".join(sorted(self.slower | self.unchanged))


RX, UDP = frozenset({"rx"}), frozenset({"udp"})
CHANGES = {
    # A module parameter: interrupts are rare, so all packets wait.
    "fewer interrupts": Change("options: {e1000e: {InterruptThrottleRate: 100}}\n", UDP),
    # Kernel parameters: an extra copy of all packets, memory checks, threaded interrupts.
    "bounce buffers": Change("cmdline: swiotlb=force\n", RX | UDP),
    "memory checks": Change("cmdline: slub_debug=FZPU\n", RX | UDP),
    "threaded interrupts": Change("cmdline: threadirqs\n", UDP),
}

USB = """
import pytest

@pytest.mark.pinet(board="virt", nic="usb-net")
def test_usb(link, gate):
    gate.tcp(link, direction="rx", duration="2 s")
"""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGate]:
    yield from emulated_gate(tmp_path_factory)


# tests/soak has more changes, and how often each is found.
@pytest.mark.parametrize("name", CHANGES)
def test_a_real_change_is_found_in_the_right_direction_only(gate: EmulatedGate, name: str) -> None:
    change = CHANGES[name]
    gate.switch(on=not change.build.startswith("cmdline"))
    code = gate.run(change.build, "-k", change.tests)
    assert code == 1, gate.text
    assert {test for test, verdict in gate.came.items() if verdict == "fail"} == change.slower, gate.text
    assert {test for test, verdict in gate.came.items() if verdict == "pass"} == change.unchanged, gate.text


def test_changes_of_a_usb_nic_and_its_host_controller_are_found(gate: EmulatedGate) -> None:
    gate.project.write("test_usb.py", USB)
    gate.switch(on=False)
    code = gate.run("cmdline: swiotlb=force\n", "test_usb.py")
    assert code == 1, gate.text
    assert gate.came == {"usb": "fail"}, gate.text
    # Its bus reports 12 Mbit/s, which is no limit in board time.
    (entry,) = gate.head["entries"]
    assert entry["a_bps"] > 20e6


# Builds without a real change: one that boots, and one that reloads the driver with its default setting.
BOOTED = "name: as it is, booted\ncmdline: pinet.same=1\n"
LOADED = "name: as it is, reloaded\noptions: {e1000e: {InterruptThrottleRate: 3}}\n"
# A build, and whether other work keeps both processors busy.
#
# Sent TCP is not tested: how the peer acknowledges it depends on other work (docs/reference/emulated-lab.md), and the
# first datagrams after a boot were 7 % faster. tests/soak states that ten of ten runs pass.
GATES = {"booted": (BOOTED, False), "reloaded, on a busy machine": (LOADED, True)}


@pytest.mark.parametrize("name", GATES)
def test_an_unchanged_build_passes(gate: EmulatedGate, name: str) -> None:
    build, busy = GATES[name]
    gate.switch(on=build is LOADED)
    with busy_loops(os.cpu_count() or 2) if busy else nullcontext():
        code = gate.run(build, "-k", "rx")
    assert code == 0, gate.text
    assert gate.came == {"rx": "pass"}, gate.text
