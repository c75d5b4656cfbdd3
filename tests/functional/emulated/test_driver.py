"""A patched NIC driver, built from Debian's packages and swapped on a running emulated board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.driver_builds import patched_module
from tests.support.emulated_gate import NEEDS, EmulatedGate, emulated_gate

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGate]:
    yield from emulated_gate(tmp_path_factory)


def test_a_two_percent_longer_receive_path_is_found(gate: EmulatedGate, tmp_path: Path) -> None:
    module = patched_module("longer-receive", tmp_path)
    assert gate.run(str(module), "-k", "rx") == 1
    assert gate.came == {"rx": "fail"}
    assert gate.changes["rx"] == pytest.approx(-0.021, abs=0.01)


@pytest.mark.parametrize(("patch", "hit", "other"), [("no-gro", "rx", "udp"), ("no-tso", "tx", "rx")])
def test_a_lost_offload_is_found_in_its_own_direction_only(
    gate: EmulatedGate, tmp_path: Path, patch: str, hit: str, other: str
) -> None:
    module = patched_module(patch, tmp_path)
    assert gate.run(str(module), "-k", f"{hit} or {other}") == 1
    assert gate.came == {hit: "fail", other: "pass"}
    assert gate.changes[hit] < -0.3
