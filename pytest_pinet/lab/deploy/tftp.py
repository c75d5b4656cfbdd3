"""A board that boots from the network: its boot files are in a folder of a TFTP server (labgrid's TFTPProvider)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_pinet.lab.deploy.boot_partition import Reach
from pytest_pinet.lab.deploy.way import Board
from pytest_pinet.lab.ssh import SshShell

DRIVER = "TFTPProviderDriver"


class Tftp:
    """The folder ``internal`` of the provider: for a Raspberry Pi that with its serial number, or prefix, as its name.

    The root file system, over NFS or on a disk, is written over ssh as everybody's. The firmware fetches
    ``tryboot.txt`` instead of ``config.txt`` here, too.
    """

    name = "TFTP server"
    on_board = False

    def __init__(self, board: Board) -> None:
        self._board = board

    @staticmethod
    def serves(board: Board) -> bool:
        """Whether the lab has such a server for this board."""
        return board.driver(DRIVER) is not None

    def reach(self) -> Reach:
        provider = self._board.driver(DRIVER).provider
        # On this machine, or by labgrid's own ssh connection to the exporter's.
        prefix = provider.command_prefix or ["/bin/sh", "-c"]
        return Reach(SshShell(f"the TFTP server of {self._board.name}", prefix), (provider.internal.rstrip("/"),))

    @contextmanager
    def writing(self) -> Iterator[Reach]:
        yield self.reach()
