"""The interface of a launcher, which starts a lab that is not permanently running.

A lab file may name a launcher. pytest then starts the lab if it is down, and the last run that uses the lab stops it if
pytest started it. All other code reaches the lab through labgrid and does not know how it was started.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, cast

from pytest_pinet.execution.entry_points import LAUNCHERS
from pytest_pinet.model.lab import Lab, Scale


class LabUse(Protocol):
    """The use of a lab by one process. Until that process ends or leaves, no other run stops the lab."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The ``LG_*`` variables of the lab."""

    @property
    def scale(self) -> Scale:
        """The share of the full rate at which the lab's links run."""

    def leave(self) -> None:
        """End this use. Stops the lab if no other process uses it and it was not started to stay up.

        A second call does nothing. Raises LabError when the lab cannot be stopped.
        """


class Launcher(Protocol):
    """Starts, finds and stops a lab.

    The environment from ``find``, ``up`` and ``use`` holds the ``LG_*`` variables that labgrid substitutes for
    ``!template`` in the lab file: at least ``LG_COORDINATOR``.
    """

    def find(self, lab: Lab) -> Mapping[str, str] | None:
        """Return the lab's environment if it is up and answers, else None. Raises LabError if the lab file changed."""

    def up(self, lab: Lab) -> Mapping[str, str]:
        """Start the lab, or find it running; it stays up until ``down``. Raises LabError naming what is missing."""

    def use(self, lab: Lab, run: str, on_start: Callable[[], None]) -> LabUse:
        """Find the lab, or start it for as long as a process uses it.

        ``run`` is the same string for all processes of one run. ``on_start`` is called before a start, which takes a
        while. Raises the same errors as ``up``.
        """

    def down(self, lab: Lab) -> int:
        """Stop the lab and remove everything that belongs to it, including leftovers of a crash.

        Does nothing when the lab is down. Returns how many runs were using it.
        """


def launcher_of(lab: Lab) -> Launcher | None:
    """Return the launcher that the lab file names, or None for a lab without a launcher. Raises ConfigError."""
    if lab.launcher is None:
        return None
    made, what = LAUNCHERS.make(lab.launcher)
    LAUNCHERS.require(made, what, Launcher)
    return cast(Launcher, made)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, such as a lab's ``LG_*`` variables, for the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
