"""The places of a board's boot files: its own partition over ssh, its card in a USB-SD-Mux, or a TFTP server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_pinet.errors import LabError, first_line
from pytest_pinet.lab.deploy.board import DeployableBoard
from pytest_pinet.lab.ssh import SshShell

MUX, STORAGE = "USBSDMuxDriver", "USBStorageDriver"
BOOT_PARTITION = 1
MOUNT_RETRIES = 5
DRIVER = "TFTPProviderDriver"
# The places of Raspberry Pi OS (before Bookworm the second, which later holds only a note that the file has moved),
# Fedora and openSUSE, Home Assistant OS, Alpine Linux and LibreELEC.
PLACES = ("/boot/firmware", "/boot", "/boot/efi", "/mnt/boot", "/media/mmcblk0p1", "/flash")


@dataclass(frozen=True)
class PartitionAccess:
    """A shell, and the ``folders`` from which the firmware may boot."""

    shell: SshShell
    folders: tuple[str, ...] = PLACES


class BootFileStore(Protocol):
    """The place of a board's boot files."""

    @property
    def name(self) -> str: ...

    @property
    def on_board(self) -> bool:
        """Whether the running board itself can write there."""

    def access(self) -> PartitionAccess:
        """Return access for reading. Raises Refused, LabError."""

    def writing(self) -> AbstractContextManager[PartitionAccess]:
        """Give access for writing. The board may be off meanwhile, and runs its known-good build afterwards."""


class OverSsh:
    """The boot partition that the running board has mounted. Other places differ in how they are read or written."""

    name = "boot partition over ssh"
    on_board = True

    def __init__(self, board: DeployableBoard) -> None:
        self._board = board

    def access(self) -> PartitionAccess:
        return PartitionAccess(self._board.shell)

    @contextmanager
    def writing(self) -> Iterator[PartitionAccess]:
        yield self.access()


class SdMux(OverSsh):
    """The first partition of the card. For writing, labgrid's agent (udisks2) mounts it on the mux's host."""

    name = "SD mux"

    @staticmethod
    def serves(board: DeployableBoard) -> bool:
        """Return whether the lab has a mux, with storage, for this board."""
        return board.driver(MUX) is not None and board.driver(STORAGE) is not None

    @contextmanager
    def writing(self) -> Iterator[PartitionAccess]:
        self._board.reset()
        mux = self._board.driver(MUX)
        try:
            with self._mounted(mux, self._board.driver(STORAGE)) as access:
                yield access
        finally:
            try:
                mux.set_mode("dut")
            finally:
                self._board.power_cycle()

    @contextmanager
    def _mounted(self, mux: Any, storage: Any) -> Iterator[PartitionAccess]:
        from pytest_pinet.lab.labgrid_private import mount_partition

        name = f"the SD mux of {self._board.name}"
        try:
            mux.set_mode("host")
            device, path = mount_partition(storage, BOOT_PARTITION, MOUNT_RETRIES)
        except Exception as error:
            raise LabError(
                f"the card in {name} cannot be mounted: {first_line(error)}", f"look at {name} and its card"
            ) from error
        lazy = True
        try:
            yield PartitionAccess(SshShell(name, storage.storage.command_prefix or ["/bin/sh", "-c"]), (path,))
            lazy = False
        finally:
            storage.proxy.unmount(device, lazy=lazy)


class Tftp(OverSsh):
    """The provider's folder ``internal``; for a Raspberry Pi, its name is the serial number or the prefix of the board.

    The root file system, over NFS or on a disk, is written over ssh as for other boards. The firmware fetches
    ``tryboot.txt`` instead of ``config.txt`` from TFTP, too.
    """

    name = "TFTP server"
    on_board = False

    @staticmethod
    def serves(board: DeployableBoard) -> bool:
        """Return whether the lab has a TFTP server for this board."""
        return board.driver(DRIVER) is not None

    def access(self) -> PartitionAccess:
        provider = self._board.driver(DRIVER).provider
        # The server is on this machine, or reached through labgrid's ssh connection to the exporter's host.
        prefix = provider.command_prefix or ["/bin/sh", "-c"]
        return PartitionAccess(
            SshShell(f"the TFTP server of {self._board.name}", prefix), (provider.internal.rstrip("/"),)
        )


def store_of(board: DeployableBoard) -> BootFileStore:
    """Return where this board has its boot files: in the SD mux or on the TFTP server of the lab, else on the board."""
    for kind in (SdMux, Tftp):
        if kind.serves(board):
            return kind(board)
    return OverSsh(board)
