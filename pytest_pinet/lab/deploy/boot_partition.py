"""Where a board's boot files are: on its own boot partition, reached over ssh. Also the seam for other places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from pytest_pinet.lab.deploy.way import Board, FeedingShell
from pytest_pinet.tuning.boot_files import FOLDERS


@dataclass(frozen=True)
class Reach:
    """A shell for which ``folders`` are where the firmware may boot from."""

    shell: FeedingShell
    folders: tuple[str, ...] = FOLDERS


class Store(Protocol):
    """Where the boot files are kept; a file each."""

    @property
    def name(self) -> str: ...

    @property
    def on_board(self) -> bool:
        """Whether the board itself can write there while it runs."""

    def reach(self) -> Reach:
        """To look. Raises Refused, LabError."""

    def writing(self) -> AbstractContextManager[Reach]:
        """To write; the board may be without power meanwhile, and runs its known-good build afterwards."""


class OverSsh:
    """The boot partition that the running board has mounted, ``/boot/firmware`` or ``/boot``."""

    name = "boot partition over ssh"
    on_board = True

    def __init__(self, board: Board) -> None:
        self._board = board

    def reach(self) -> Reach:
        return Reach(self._board.shell)

    @contextmanager
    def writing(self) -> Iterator[Reach]:
        yield self.reach()
