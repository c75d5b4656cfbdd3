"""Builds on emulated boards: an unchanged one passes, and real changes are found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks.virtual_time import busy_loops
from tests.support.driver_builds import patched_module
from tests.support.emulated_gate import EmulatedGate, emulated_gate

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

# Builds without a real change: one that boots, and one that reloads the driver with its default setting.
BOOTED = "name: as it is, booted\ncmdline: pinet.same=1\n"
LOADED = "name: as it is, loaded again\noptions: {e1000e: {InterruptThrottleRate: 3}}\n"
# What a build changes, the tests that must become slower, and the tests that must not change.
CHANGES = {
    "fewer interrupts": ("options: {e1000e: {InterruptThrottleRate: 100}}\n", {"udp"}, set[str]()),
    "a small receive window": ("sysctls: {net.ipv4.tcp_rmem: 4096 16384 16384}\n", {"rx"}, {"udp"}),
    "a small send buffer": ("sysctls: {net.ipv4.tcp_wmem: 4096 8192 8192}\n", {"tx"}, {"rx"}),
    "bounce buffers": ("cmdline: swiotlb=force\n", {"rx", "udp"}, set[str]()),
    "memory checks": ("cmdline: slub_debug=FZPU\n", {"rx", "udp"}, set[str]()),
    "cleared memory": ("cmdline: init_on_alloc=1 init_on_free=1\n", {"rx"}, set[str]()),
    "threaded interrupts": ("cmdline: threadirqs\n", {"udp"}, set[str]()),
}


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGate]:
    yield from emulated_gate(tmp_path_factory)


@pytest.mark.soak("An unchanged build passes the gate if each round boots the board.", runs=10, minutes=25)
def test_an_unchanged_build_that_is_booted(gate: EmulatedGate) -> None:
    assert gate.run(BOOTED, "-k", "rx") == 0, gate.text
    assert gate.came == {"rx": "unchanged"}


@pytest.mark.soak(
    "An unchanged build passes the gate if each round reloads its driver, also while both processors are busy.",
    runs=10,
    minutes=25,
)
def test_an_unchanged_driver_that_is_loaded(gate: EmulatedGate, soak_number: int) -> None:
    gate.switch(on=True)
    with busy_loops(os.cpu_count() or 2) if soak_number % 2 else nullcontext():
        assert gate.run(LOADED, "-k", "rx") == 0, gate.text
    assert gate.came == {"rx": "unchanged"}


@pytest.mark.soak("An unchanged driver that is built from Debian's sources passes the gate.", runs=5, minutes=30)
def test_an_unchanged_driver_that_is_built(gate: EmulatedGate, tmp_path: Path) -> None:
    assert gate.run(str(patched_module(None, tmp_path)), "-k", "rx or udp") == 0, gate.text
    assert gate.came == {"rx": "unchanged", "udp": "unchanged"}


@pytest.mark.soak("A build with {change} fails only in the direction that it slows down.", runs=3, minutes=25)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found_in_its_direction_only(gate: EmulatedGate, change: str) -> None:
    build, slower, unchanged = CHANGES[change]
    gate.switch(on=not build.startswith("cmdline"))
    assert gate.run(build, "-k", " or ".join(sorted(slower | unchanged))) == 1, gate.text
    assert gate.came == dict.fromkeys(slower, "regression") | dict.fromkeys(unchanged, "unchanged"), gate.text


@pytest.mark.soak(
    "The gate detects a receive path with 2 % more instructions, and measures the change within 1 %.",
    runs=5,
    minutes=30,
)
def test_two_percent_more_instructions_are_found(gate: EmulatedGate, tmp_path: Path) -> None:
    assert gate.run(str(patched_module("longer-receive", tmp_path)), "-k", "rx") == 1, gate.text
    assert gate.came == {"rx": "regression"}
    assert gate.changes["rx"] == pytest.approx(-0.021, abs=0.01)


@pytest.mark.soak("A driver that loses an offload ({patch}) fails in {hit} and passes in {other}.", runs=3, minutes=30)
@pytest.mark.parametrize(("patch", "hit", "other"), [("no-gro", "rx", "udp"), ("no-tso", "tx", "rx")])
def test_a_lost_offload_is_found(gate: EmulatedGate, tmp_path: Path, patch: str, hit: str, other: str) -> None:
    assert gate.run(str(patched_module(patch, tmp_path)), "-k", f"{hit} or {other}") == 1, gate.text
    assert gate.came == {hit: "regression", other: "unchanged"}
    assert gate.changes[hit] < -0.3
