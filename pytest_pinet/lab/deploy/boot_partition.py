"""The boot partition of a board, reached over ssh, and the interface for other places of boot files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from pytest_pinet.lab.deploy.deploy_target import DeployableBoard, FeedingShell
from pytest_pinet.tuning.boot_files import FOLDERS


@dataclass(frozen=True)
class PartitionAccess:
    """A shell, and the ``folders`` from which the firmware may boot."""

    shell: FeedingShell
    folders: tuple[str, ...] = FOLDERS


class BootFileStore(Protocol):
    """The place of a board's boot files. Each implementation has one file."""

    @property
    def name(self) -> str: ...

    @property
    def on_board(self) -> bool:
        """Whether the running board itself can write there."""

    def reach(self) -> PartitionAccess:
        """Return access for reading. Raises Refused, LabError."""

    def writing(self) -> AbstractContextManager[PartitionAccess]:
        """Give access for writing. The board may be off meanwhile, and runs its known-good build afterwards."""


class OverSsh:
    """The boot partition that the running board has mounted, ``/boot/firmware`` or ``/boot``."""

    name = "boot partition over ssh"
    on_board = True

    def __init__(self, board: DeployableBoard) -> None:
        self._board = board

    def reach(self) -> PartitionAccess:
        return PartitionAccess(self._board.shell)

    @contextmanager
    def writing(self) -> Iterator[PartitionAccess]:
        yield self.reach()
