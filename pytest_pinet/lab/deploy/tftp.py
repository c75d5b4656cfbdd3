"""A board that boots from the network: its boot files are in a folder of a TFTP server (labgrid's TFTPProvider)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_pinet.lab.deploy.boot_partition import PartitionAccess
from pytest_pinet.lab.deploy.deploy_target import DeployableBoard
from pytest_pinet.lab.ssh.shell import SshShell

DRIVER = "TFTPProviderDriver"


class Tftp:
    """The provider's folder ``internal``; for a Raspberry Pi, its name is the serial number or the prefix of the board.

    The root file system, over NFS or on a disk, is written over ssh as for other boards. The firmware fetches
    ``tryboot.txt`` instead of ``config.txt`` from TFTP, too.
    """

    name = "TFTP server"
    on_board = False

    def __init__(self, board: DeployableBoard) -> None:
        self._board = board

    @staticmethod
    def serves(board: DeployableBoard) -> bool:
        """Return whether the lab has a TFTP server for this board."""
        return board.driver(DRIVER) is not None

    def reach(self) -> PartitionAccess:
        provider = self._board.driver(DRIVER).provider
        # The server is on this machine, or reached through labgrid's ssh connection to the exporter's host.
        prefix = provider.command_prefix or ["/bin/sh", "-c"]
        return PartitionAccess(
            SshShell(f"the TFTP server of {self._board.name}", prefix), (provider.internal.rstrip("/"),)
        )

    @contextmanager
    def writing(self) -> Iterator[PartitionAccess]:
        yield self.reach()
