"""Who starts a lab that is not simply there.

A lab file may name a launcher; pytest then starts the lab when it is not up, and stops what it started. Everything else
reaches the lab through labgrid and does not know who started it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Protocol, cast

from pytest_pinet.model.lab import Lab

# Name in the lab file -> module that holds a ``launcher()`` factory; imported when it is asked for.
LAUNCHERS: dict[str, str] = {"virtual": "pytest_pinet.virtual.launcher"}


class Launcher(Protocol):
    """Starts, finds and stops a lab.

    The environment that ``find`` and ``up`` return holds the ``LG_*`` variables that labgrid substitutes for
    ``!template`` in the lab file: at least ``LG_COORDINATOR``.
    """

    def find(self, lab: Lab) -> Mapping[str, str] | None:
        """The environment of this lab if it is up and answers, else None."""

    def up(self, lab: Lab) -> Mapping[str, str]:
        """Start the lab, or find it. Raises LabError (with what is missing) or UnsupportedError."""

    def down(self, lab: Lab) -> None:
        """Stop the lab and remove everything of it, also what a crash left behind; harmless when it is down."""


def launcher_of(lab: Lab) -> Launcher | None:
    """The launcher that the lab file names, or None when the lab is simply there."""
    if lab.launcher is None:
        return None
    module = importlib.import_module(LAUNCHERS[lab.launcher])
    return cast(Launcher, module.launcher())
