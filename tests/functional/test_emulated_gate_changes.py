"""Real changes of a kernel and its driver on emulated boards: each is found, in the right direction only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from emulated_bench import NEEDS, EmulatedGate, emulated_gate

pytestmark = NEEDS


@dataclass(frozen=True)
class Change:
    """A build, the tests that must find it, and those that must not."""

    build: str
    slower: frozenset[str]
    unchanged: frozenset[str] = frozenset()

    @property
    def tests(self) -> str:
        return " or ".join(sorted(self.slower | self.unchanged))


RX, TX, UDP = frozenset({"rx"}), frozenset({"tx"}), frozenset({"udp"})
CHANGES = {
    # A module parameter: interrupts are rare, so that all wait for each other.
    "fewer interrupts": Change("options: {e1000e: {InterruptThrottleRate: 100}}\n", UDP),
    # Sysctls that narrow one way and leave the other.
    "small receive window": Change("sysctls: {net.ipv4.tcp_rmem: 4096 16384 16384}\n", RX, UDP),
    "small send buffer": Change("sysctls: {net.ipv4.tcp_wmem: 4096 8192 8192}\n", TX, RX),
    # Kernel parameters: all packets are copied once more, memory is checked or cleared, interrupts have threads.
    "bounce buffers": Change("cmdline: swiotlb=force\n", RX | UDP),
    "memory checks": Change("cmdline: slub_debug=FZPU\n", RX | UDP),
    "cleared memory": Change("cmdline: init_on_alloc=1 init_on_free=1\n", RX),
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


# The others show what these do on fewer paths.
IN_CI = ["fewer interrupts", "bounce buffers", "memory checks", "threaded interrupts"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_CI else pytest.mark.soak) for name in CHANGES]
)
def test_a_real_change_is_found_in_the_right_direction_only(gate: EmulatedGate, name: str) -> None:
    change = CHANGES[name]
    gate.switch(on=not change.build.startswith("cmdline"))
    code = gate.run(change.build, "-k", change.tests)
    assert code == 1, gate.text
    assert {test for test, outcome in gate.came.items() if outcome == "regression"} == change.slower, gate.text
    assert {test for test, outcome in gate.came.items() if outcome == "unchanged"} == change.unchanged, gate.text


def test_a_usb_nic_and_its_host_controller_are_gated_too(gate: EmulatedGate) -> None:
    gate.project.write("test_usb.py", USB)
    gate.switch(on=False)
    code = gate.run("cmdline: swiotlb=force\n", "test_usb.py")
    assert code == 1, gate.text
    assert gate.came == {"usb": "regression"}, gate.text
    # Its bus says 12 Mbit/s, which is no limit where seconds are counted instructions.
    (entry,) = gate.head["entries"]
    assert entry["a_bps"] > 20e6
