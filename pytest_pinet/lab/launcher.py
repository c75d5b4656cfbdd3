"""Who starts a lab that is not simply there.

A lab file may name a launcher; pytest then starts the lab when it is not up, and the last run that uses it stops what
pytest started. Everything else reaches the lab through labgrid and does not know who started it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from pytest_pinet.model.lab import Lab
from pytest_pinet.model.scale import Scale

# Name in the lab file -> module that holds a ``launcher()`` factory; imported when it is asked for.
LAUNCHERS: dict[str, str] = {"virtual": "pytest_pinet.virtual.launcher"}


class LabUse(Protocol):
    """One process that uses a lab; while it lives and has not left, no other run stops the lab."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The ``LG_*`` variables of the lab."""

    @property
    def scale(self) -> Scale:
        """The share of their rate at which its links run."""

    def leave(self) -> None:
        """Use it no longer; stops the lab when nobody else uses it and nobody asked for it to stay. Harmless again.

        Raises LabError when it cannot be stopped.
        """


class Launcher(Protocol):
    """Starts, finds and stops a lab.

    The environment that ``find``, ``up`` and ``use`` tell holds the ``LG_*`` variables that labgrid substitutes for
    ``!template`` in the lab file: at least ``LG_COORDINATOR``.
    """

    def find(self, lab: Lab) -> Mapping[str, str] | None:
        """The environment of this lab if it is up and answers, else None."""

    def up(self, lab: Lab) -> Mapping[str, str]:
        """Start the lab, or find it; it stays until ``down``. Raises LabError (with what is missing)."""

    def use(self, lab: Lab, run: str, on_start: Callable[[], None]) -> LabUse:
        """Find the lab, or start it for as long as somebody uses it.

        ``run`` is the same word for all processes of one run; ``on_start`` is called before a start, which takes a
        while. Raises as ``up``.
        """

    def down(self, lab: Lab) -> int:
        """Stop the lab and remove everything of it, also what a crash left behind; harmless when it is down.

        Returns how many runs were using it.
        """


def launcher_of(lab: Lab) -> Launcher | None:
    """The launcher that the lab file names, or None when the lab is simply there."""
    if lab.launcher is None:
        return None
    module = importlib.import_module(LAUNCHERS[lab.launcher])
    return cast(Launcher, module.launcher())
