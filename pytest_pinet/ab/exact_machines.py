"""Exact boards in QEMU on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.exact.board import BOARDS
from pytest_pinet.exact.measure import known_good, measured, stock_build
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot, NotExact
from pytest_pinet.session.exact_machines import MadeExactBoot

_ORDINARY = (
    "the exact gate cannot judge here; use the A/B gate of the emulated lab: pinet gate --lab emulated BUILD. Its "
    "verdicts need several boots"
)


class QemuMachines:
    """Implements ``ExactMachines``.

    A known-good build that consists of modules replaces modules of the stock kernel, as the build under test does. The
    build under test replaces modules of the known-good kernel.
    """

    nics: Sequence[str] = tuple(BOARDS)

    def __init__(self) -> None:
        self._stock: Build | None = None
        self._kernels: dict[str, Build] = {}

    def known_good(self, nic: str, build: Build | None, say: Callable[[str], None]) -> MadeExactBoot:
        kernel = build if build is not None and build.kernel is not None else self._stock_kernel(say)
        self._kernels[nic] = kernel
        proved = _timed(lambda tell: _proved(nic, kernel, tell), say)
        if build is None or build is kernel:
            return proved
        return _timed(lambda tell: measured(BOARDS[nic], kernel, build, say=tell), say)

    def boot(self, nic: str, build: Build, say: Callable[[str], None]) -> MadeExactBoot:
        kernel = self._kernels[nic]
        return _timed(lambda tell: measured(BOARDS[nic], kernel, build, say=tell), say)

    def _stock_kernel(self, say: Callable[[str], None]) -> Build:
        if self._stock is None:
            self._stock = stock_build(say)
        return self._stock


def _proved(nic: str, kernel: Build, say: Callable[[str], None]) -> ExactBoot:
    found = known_good(BOARDS[nic], kernel, say)
    if isinstance(found, NotExact):
        raise InvalidMeasurement(f"the exact board {nic} is not exact on this machine: {found}; {_ORDINARY}")
    return found


def _timed(made: Callable[[Callable[[str], None]], ExactBoot], say: Callable[[str], None]) -> MadeExactBoot:
    """Return the boot with its time. It was cached if nothing was said about booting."""
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        say(text)

    started = monotonic()
    boot = made(tell)
    return MadeExactBoot(boot, monotonic() - started, cached=not told)
