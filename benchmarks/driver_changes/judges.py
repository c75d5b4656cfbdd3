"""Lets each gate judge one change. Boots and builds of drivers are cached, so that a second run is quick."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.driver_changes.changes import DRIVERS, PATCHES, Change
from pytest_pinet.ab.exact_series import ExactSeries, QemuMachines
from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import CapabilityError
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.exact import ExactChange, ExactLimits, WindowChange
from pytest_pinet.judge.exact_functions import explaining
from pytest_pinet.model.exact import Comparison, FunctionChange
from tests.support.driver_builds import patched_module
from tests.support.emulated_gate import EmulatedGate, emulated_gate

# The emulated lab has no other NIC of an exact board.
ORDINARY_NICS = {"e1000e": "e1000e", "virtio-net": "virtio"}


@dataclass(frozen=True)
class Finding:
    """What a gate says: one of ``slower``, ``faster``, ``changed`` (below the limits), ``same``, and why."""

    outcome: str
    why: str = ""


def build_file(change: Change, folder: Path) -> Path:
    """Return a file of the build under test, in ``folder``."""
    if change.patch:
        return patched_module(change.patch, folder, DRIVERS[change.board], PATCHES)
    file = folder / "build.yaml"
    file.write_text(
        yaml.safe_dump({"cmdline": change.cmdline, "options": {k: dict(v) for k, v in change.options.items()}})
    )
    return file


def exact_change(change: Change) -> ExactChange:
    """Return the exact comparison of a change with the same kernel, or with the same driver built without the patch.

    Raises BuildError, CapabilityError, LabError.
    """
    machines = QemuMachines({change.board: exact_boards()[change.board]})
    with TemporaryDirectory() as name:
        folder = Path(name)
        plain = load_build(str(patched_module(None, folder / "plain", DRIVERS[change.board]))) if change.patch else None
        build = load_build(str(build_file(change, folder)))
        plans = machines.known_good(change.board, plain, build, _quiet), machines.boot(change.board, build, _quiet)
        return ExactSeries(change.board, *plans, "the driver without the patch", _quiet).judge(ExactLimits())


def exact(found: ExactChange) -> Finding:
    """Return what the exact gate says with its default limits."""
    missed = [one for one in found.windows if one.result is Relation.SLOWER]
    better = [one for one in found.windows if one.result is Relation.FASTER]
    if missed or better:
        worst = max(missed or better, key=lambda one: abs(_share(one)))
        share = _share(worst)
        # A window can be slower although its instructions are not more.
        how = f"goodput {worst.change:+.1%}" if missed and share < 0 else f"{share:+.1%}"
        named = "".join(f": {_text(one)}" for one in explaining(worst.functions, worst.shift, worst.result)[:1])
        return Finding("slower" if missed else "faster", f"{how} in {worst.b.name}{named}")
    first = _first(found)
    return Finding("changed" if first else "same", first)


def goodput(found: ExactChange) -> Finding:
    """Return what goodput and packets per second of the same boots say, without instructions and functions.

    Windows that are unchanged differ by chance.
    """
    timed = [one for one in found.windows if one.a.traffic != "frame" and one.result is not Relation.SAME]
    if not timed:
        return Finding("same")
    worst = min(timed, key=lambda one: one.change / one.tolerance)
    if worst.change < -worst.tolerance:
        return Finding("slower", f"{worst.change:+.1%} in {worst.b.name}")
    best = max(timed, key=lambda one: one.change / one.tolerance)
    if best.change > best.tolerance:
        return Finding("faster", f"{best.change:+.1%} in {best.b.name}")
    return Finding("same")


def ordinary(change: Change) -> Finding:
    """Return what the ordinary gate says on emulated boards."""
    nic = ORDINARY_NICS.get(change.board)
    if nic is None:
        raise CapabilityError(f"the emulated lab has no {change.board}")
    start = time.monotonic()
    with TemporaryDirectory() as name:
        for gate in emulated_gate(_Folders(Path(name))):
            own = gate.project.path / "test_change.py"
            own.write_text(own.read_text().replace("e1000e", nic))
            return _ran(gate, build_file(change, Path(name)), start)
    raise AssertionError


def _ran(gate: EmulatedGate, build: Path, start: float) -> Finding:
    code = gate.run(str(build))
    took = f"{time.monotonic() - start:.0f} s"
    outcome = {0: "same", 1: "slower", 3: "undecided"}.get(code)
    if outcome is None:
        return Finding(
            "no verdict", f"exit code {code}, {took}: {gate.text.strip().splitlines()[-1].strip('= ')[:120]}"
        )
    words = ", ".join(
        f"{name} {gate.changes[name]:+.1%}{' (undecided)' if came == 'undecided' else ''}"
        for name, came in sorted(gate.came.items())
        if name in gate.changes
    )
    return Finding(outcome, f"{words}; {took}")


def _share(one: WindowChange) -> float:
    grown = one.change_of_sum
    return -one.change if grown is None or not one.sum_a else grown / one.sum_a


def _first(found: ExactChange) -> str:
    """Return the function that changed most where frames come one by one: in the changed driver, or else anywhere."""
    single = [(one, function) for one in found.windows if one.a.one_by_one for function in one.functions]
    own = [pair for pair in single if pair[1].comparison is Comparison.CHANGED] or [
        pair for pair in single if pair[1].comparison is not Comparison.SHIFTING
    ]
    if not own:
        return ""
    window, function = max(own, key=lambda pair: (not pair[1].same_code, abs(pair[1].change)))
    return f"{_text(function)} in {window.b.name}"


def _text(one: FunctionChange) -> str:
    return f"`{one.function}` {one.a:.2f} -> {one.b:.2f}"


class _Folders:
    """Folders for ``emulated_gate`` outside of a test."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def mktemp(self, basename: str, /) -> Path:
        folder = self._base / basename
        folder.mkdir()
        return folder


def _quiet(_: str) -> None:
    pass
