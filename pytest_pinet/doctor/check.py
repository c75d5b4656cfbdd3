"""The seam to the single checks: one file for each, or for a few that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.finding import Finding


class Check(Protocol):
    """One line of ``pinet doctor``."""

    @property
    def name(self) -> str:
        """What the line is called."""

    @property
    def blocks(self) -> str:
        """Why nothing more is checked of a node (or of the lab) that fails here; empty when that does not matter."""

    def run(self, bench: Bench) -> Sequence[Finding]:
        """Look at ``bench.ready``, the nodes that nothing has failed of yet. May raise PinetError, and block nodes."""
