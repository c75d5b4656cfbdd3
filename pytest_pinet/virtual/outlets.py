"""The interface between power outlets of any kind and nodes."""

from __future__ import annotations

from typing import Protocol


class Outlet(Protocol):
    """A node, seen from its power supply."""

    @property
    def on(self) -> bool:
        """Whether the node has power."""

    async def power_on(self) -> None:
        """Switch the power on. Returns when it is on."""

    async def power_off(self) -> None:
        """Switch the power off. Returns when no process of the node runs."""
