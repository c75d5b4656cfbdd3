"""What boots builds on exact boards. ``pytest_pinet.exact`` implements it with QEMU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import MadeExactBoot


@dataclass(frozen=True)
class PlannedExactBoot:
    """A build that passed all checks that need no boot.

    Both functions get the number of a meaningless change, such as words on the command line, which move memory and
    timers as another binary does; 0 is none. A number is the same change for both builds. ``boots`` returns how often
    ``make`` boots; 0 if the values are known from an earlier run. ``make`` raises BuildError or LabError. It is called
    in several threads at the same time. Plans of several NICs are made one after the other.
    """

    boots: Callable[[int], int]
    make: Callable[[int], MadeExactBoot]


class ExactMachines(Protocol):
    """Boots builds on exact boards. The hook ``pytest_pinet_exact_machines`` returns another implementation."""

    @property
    def nics(self) -> Sequence[str]:
        """The names of the NICs that have an exact board."""

    def stock_release(self, say: Callable[[str], None]) -> str:
        """Return the release of the stock kernel. Raises LabError."""

    def known_good(self, nic: str, build: Build | None, new: Build, say: Callable[[str], None]) -> PlannedExactBoot:
        """Check the known-good build (None: the stock kernel). Raises BuildError, LabError or UnsupportedError.

        It gets the traffic that the build under test, ``new``, can send too. The first time on a machine, it is booted
        twice without a change. ``make`` raises LabError if the boots differ. ``say`` shows what is being done.
        """

    def boot(self, nic: str, build: Build, say: Callable[[str], None]) -> PlannedExactBoot:
        """Check the build under test, after ``known_good``. Raises BuildError, LabError or UnsupportedError."""

    def stop(self) -> None:
        """End all boots that are not over. Called at the end of each process, after its results are written."""
