"""What boots builds on exact boards. ``pytest_pinet.exact`` implements it with QEMU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot


@dataclass(frozen=True)
class MadeExactBoot:
    """A boot and its time in seconds. ``cached``: the boot was made in an earlier run."""

    boot: ExactBoot
    seconds: float
    cached: bool = False


class ExactMachines(Protocol):
    """Boots builds on exact boards. The hook ``pytest_pinet_exact_machines`` returns another implementation."""

    @property
    def nics(self) -> Sequence[str]:
        """The names of the NICs that have an exact board."""

    def known_good(self, nic: str, build: Build | None, say: Callable[[str], None]) -> MadeExactBoot:
        """Boot the known-good build (None: the stock kernel), or return its boot of an earlier run.

        The first time on a machine, the build is booted twice. Raises InvalidMeasurement if the boots differ,
        BuildError, LabError or UnsupportedError. ``say`` shows what is being done.
        """

    def boot(self, nic: str, build: Build, say: Callable[[str], None]) -> MadeExactBoot:
        """Boot the build under test once. Raises BuildError, LabError or UnsupportedError."""
