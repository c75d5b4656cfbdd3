"""Exact gates of an unchanged build beside other work: all digits are equal."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.virtual_time import busy_loops
from pytest_pinet.errors import CapabilityError
from pytest_pinet.exact.boot import boot
from pytest_pinet.exact.measure import ExactBench, exact_boards, stock_build
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import ExactLimits, judge_exact
from pytest_pinet.model.exact import first_difference

NICS = ("e1000e", "virtio-net", "macb", "igb")
BUSY = 2


@pytest.mark.soak(
    "An exact gate of a build against itself is equal to the last digit beside two busy processes (five gates of each "
    "NIC).",
    runs=20,
    minutes=30,
)
@pytest.mark.skipif(shutil.which("qemu-system-aarch64") is None, reason="QEMU for arm64 is missing")
def test_a_build_against_itself_beside_busy_processes(soak_number: int) -> None:
    try:
        bench = ExactBench(exact_boards()[NICS[soak_number % len(NICS)]])
    except CapabilityError as error:
        pytest.skip(error.message)
    payload = bench.payload(stock_build(print))
    with busy_loops(BUSY):
        # The first time, this boots twice. Later, as in any gate, its values come from the cache.
        good = bench.known_good(payload, print).boot
        again = boot(payload, bench.qemu, bench.plugin, model=bench.model(payload))
    assert first_difference(good, again) is None
    found = judge_exact(good, again, ExactLimits())
    assert len(found.windows) >= 12
    assert {one.result for one in found.windows} == {Relation.SAME}
    assert not any(one.functions for one in found.windows)
