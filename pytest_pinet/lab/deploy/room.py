"""Room on one file system of a board, for builds that are there at the same time."""

from __future__ import annotations

from pytest_pinet.lab.deploy.way import Refused
from pytest_pinet.model.build import Build


def free_bytes(line: str) -> int | None:
    """What the last line of ``df -kP`` calls available; None where it does not tell."""
    words = line.split()
    # Filesystem 1024-blocks Used Available Capacity Mounted on
    return int(words[3]) * 1024 if len(words) >= 6 and words[3].isdigit() else None


class Room:
    """Whoever was let through has its room, whether it is ``there`` (by its key) yet or not."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self._let_through: dict[str, int] = {}

    def check(self, build: Build, needed: int, left: int | None, what: str, where: str, act: str) -> None:
        """Let ``build`` through with what it needs of the bytes that are left (None: unknown). Raises Refused.

        ``what`` takes it, such as "build new takes"; ``where`` it would be; ``act`` makes room.
        """
        others = sum(size for key, size in self._let_through.items() if key not in {*self.there, build.key})
        if left is not None and needed + others > left and build.key not in self.there:
            beside = f", beside {others / 1e6:.0f} MB of another build" if others else ""
            raise Refused(f"{what} {needed / 1e6:.0f} MB{beside}, and {where} has {left / 1e6:.0f} MB left: {act}")
        self._let_through[build.key] = needed
