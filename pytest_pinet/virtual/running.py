"""The running half of a board: what there is of it only while it has power."""

from __future__ import annotations

from typing import Protocol

from pytest_pinet.virtual.processes import ProcessId


class Running(Protocol):
    """Processes in namespaces, or an emulator."""

    @property
    def running(self) -> bool:
        """Whether it still does."""

    def identities(self) -> list[ProcessId]:
        """What must be gone when this board is."""

    async def tell_throttled(self, bits: int) -> None:
        """Let its firmware answer this to `vcgencmd get_throttled`. Raises LabError where that is not ours to say."""

    async def kill(self) -> None:
        """Power off. Returns when all of it is gone. Raises LabError."""

    def freeze(self) -> None:
        """Stop all of it."""

    def thaw(self) -> None:
        """Let it go on."""
