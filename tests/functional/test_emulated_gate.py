"""An unchanged build on emulated boards: it passes ten times of ten, also on a machine that is busy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from emulated_bench import NEEDS, EmulatedGate, emulated_gate

from benchmarks.virtual_time import busy_loops

pytestmark = NEEDS

# Nothing else than what runs anyhow: by a boot of its own, and by a driver that is loaded anew with its own default.
BOOTED = "name: as it is, booted\ncmdline: pinet.same=1\n"
LOADED = "name: as it is, loaded anew\noptions: {e1000e: {InterruptThrottleRate: 3}}\n"
# A build, its tests, whether both processors have other work all the time. TCP that a board sends is not among them:
# how its peer acknowledges depends on other work (docs/emulated.md). Nor are datagrams: the first after a boot were
# 7 % faster.
GATES = [
    (BOOTED, "rx", False),
    (BOOTED, "rx", False),
    (LOADED, "rx", True),
    (LOADED, "rx", False),
    (LOADED, "rx", True),
    (LOADED, "rx", False),
    (LOADED, "rx", True),
    (LOADED, "rx", True),
    (LOADED, "rx", True),
    (LOADED, "rx", False),
]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGate]:
    yield from emulated_gate(tmp_path_factory)


@pytest.mark.parametrize("number", range(len(GATES)))
def test_an_unchanged_build_passes(gate: EmulatedGate, number: int) -> None:
    build, tests, busy = GATES[number]
    gate.switch(on=build is LOADED)
    with busy_loops(os.cpu_count() or 2) if busy else nullcontext():
        code = gate.run(build, "-k", tests)
    assert code == 0, gate.text
    assert set(gate.came.values()) == {"unchanged"}, gate.text
    assert set(gate.came) == set(tests.split(" or "))
