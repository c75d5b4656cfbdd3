"""Exact gates of drivers that were built again: without a change, and with four more instructions in one function."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_pinet.ab.exact_series import ExactSeries, QemuMachines
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import CapabilityError
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.judge.exact import ExactLimits
from pytest_pinet.judge.turns import Side
from pytest_pinet.model.build import Build
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.exact_text import exact_records, function_rows
from tests.support.driver_builds import patched_module
from tests.support.rebuilds import MODULES, ON_PATH, not_longer, rebuilt

MACHINES = QemuMachines(exact_boards())
NAMES = [*MODULES]
pytestmark = pytest.mark.skipif(shutil.which("qemu-system-aarch64") is None, reason="QEMU for arm64 is missing")


def judged(name: str, plain: Build, build: Build) -> Sequence[ResultRecord]:
    """Return what a gate of the build says against the driver that was built without a change."""
    try:
        plans = MACHINES.known_good(name, plain, build, print), MACHINES.boot(name, build, print)
    except CapabilityError as error:
        pytest.skip(error.message)
    series = ExactSeries(name, *plans, "the driver without a change", print)
    found = series.judge(ExactLimits())
    a, b = (series.boots[0, side].boot.identity for side in Side)
    return exact_records(("plain", str(build)), (a, b), found, (), datetime.now(UTC))


@pytest.mark.soak(
    "No driver that was built again without a change, with other options of the compiler, padding, places, objects and "
    "words of the kernel, is slower on an exact board (200 rebuilds, spread over all boards).",
    runs=200,
    minutes=400,
)
def test_a_driver_that_was_only_built_again_is_not_slower(soak_number: int, tmp_path: Path) -> None:
    name = NAMES[soak_number % len(NAMES)]
    build = rebuilt(MODULES[name], soak_number // len(NAMES), tmp_path / "build")
    plain = load_build(str(patched_module(None, tmp_path / "plain", MODULES[name])))
    found = judged(name, plain, build)
    assert [one.message for one in found if one.verdict is Verdict.FAIL] == []


@pytest.mark.soak(
    "Four more instructions in a function that handles frames are listed with this function first, and with four "
    "instructions or more (60 changes, spread over all boards).",
    runs=60,
    minutes=120,
)
def test_four_more_instructions_are_listed_first(soak_number: int, tmp_path: Path) -> None:
    name = NAMES[soak_number % len(NAMES)]
    functions = ON_PATH[MODULES[name]]
    function = functions[soak_number // len(NAMES) % len(functions)]
    plain = not_longer(MODULES[name], function, tmp_path / "plain")
    build = rebuilt(MODULES[name], soak_number // len(NAMES), tmp_path / "build", function)
    first = function_rows(judged(name, plain, build))[0].record
    assert str(first.function) == f"{function} [{MODULES[name]}]"
    assert first.change >= 4
