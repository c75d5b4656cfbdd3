"""Free space on one file system of a board, for several builds at the same time."""

from __future__ import annotations

from pytest_pinet.lab.deploy.deploy_target import Refused
from pytest_pinet.model.build import Build


def free_bytes(line: str) -> int | None:
    """Return the available bytes from the last line of ``df -kP``, or None if the line has none."""
    words = line.split()
    # Filesystem 1024-blocks Used Available Capacity Mounted on
    return int(words[3]) * 1024 if len(words) >= 6 and words[3].isdigit() else None


class DiskSpace:
    """Reserves space for each accepted build. ``there`` holds the keys of builds whose files are already deployed."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self._let_through: dict[str, int] = {}

    def check(self, build: Build, needed: int, left: int | None, what: str, where: str, act: str) -> None:
        """Accept ``build`` and reserve ``needed`` of the bytes that are left (None: unknown). Raises Refused.

        For the message: ``what`` takes the space, such as "build new takes"; ``where`` is the place; ``act`` frees
        space.
        """
        others = sum(size for key, size in self._let_through.items() if key not in {*self.there, build.key})
        if left is not None and needed + others > left and build.key not in self.there:
            beside = f", beside {others / 1e6:.0f} MB of another build" if others else ""
            raise Refused(f"{what} {needed / 1e6:.0f} MB{beside}, and {where} has {left / 1e6:.0f} MB left: {act}")
        self._let_through[build.key] = needed
