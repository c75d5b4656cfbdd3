"""A limit as somebody wrote it, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase

from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.traffic import Direction


class Origin(IntEnum):
    """Who set a value; a higher origin beats a lower one of the same specificity."""

    LAB_FILE = 1
    MARKER = 2
    COMMAND_LINE = 3


@dataclass(frozen=True)
class Limit:
    """A minimum for the goodput of the combinations that its selectors match.

    Selectors are globs; ``direction`` None means every direction. ``source`` says where it was written
    (``lab/virtual.yaml:88``, ``@pytest.mark.pinet(min=...)`` or ``--pinet-min``).
    """

    minimum: Bitrate | Share
    origin: Origin
    source: str
    board: str = "*"
    nic: str = "*"
    topology: str = "*"
    direction: Direction | None = None

    def matches(self, board: str, nic: str, topology: str, direction: Direction) -> bool:
        """Whether this limit speaks of that combination and one-way direction."""
        return (
            fnmatchcase(board, self.board)
            and fnmatchcase(nic, self.nic)
            and fnmatchcase(topology, self.topology)
            and (self.direction is None or direction in self.direction.parts)
        )

    @property
    def specificity(self) -> tuple[int, int]:
        """Ascending rank: first how many selectors are given without a wildcard, then how many at all."""
        globs = (self.board, self.nic, self.topology)
        exact = sum(not set(g) & set("*?[") for g in globs)
        given = sum(g != "*" for g in globs)
        directed = self.direction in (Direction.TX, Direction.RX)
        return (exact + directed, given + directed)
