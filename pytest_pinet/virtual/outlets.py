"""What a power outlet of any kind switches."""

from __future__ import annotations

from typing import Protocol


class Outlet(Protocol):
    """A node, seen from its power supply."""

    @property
    def on(self) -> bool:
        """Whether it has power."""

    async def power_on(self) -> None:
        """Returns when it has power."""

    async def power_off(self) -> None:
        """Returns when nothing of it runs any more."""
