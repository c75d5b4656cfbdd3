"""A board whose card is in a USB-SD-Mux: the mux's host writes the card while the board is off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_pinet.errors import LabError, first_line
from pytest_pinet.lab.deploy.boot_partition import PartitionAccess
from pytest_pinet.lab.deploy.deploy_target import DeployableBoard
from pytest_pinet.lab.ssh.shell import SshShell

MUX, STORAGE = "USBSDMuxDriver", "USBStorageDriver"
BOOT_PARTITION = 1
MOUNT_RETRIES = 5


class SdMux:
    """The first partition of the card. For writing, labgrid's agent (udisks2) mounts it on the mux's host.

    Reading uses ssh to the running board.
    """

    name = "SD mux"
    on_board = True

    def __init__(self, board: DeployableBoard) -> None:
        self._board = board

    @staticmethod
    def serves(board: DeployableBoard) -> bool:
        """Return whether the lab has a mux, with storage, for this board."""
        return board.driver(MUX) is not None and board.driver(STORAGE) is not None

    def reach(self) -> PartitionAccess:
        return PartitionAccess(self._board.shell)

    @contextmanager
    def writing(self) -> Iterator[PartitionAccess]:
        self._board.power_off()
        mux = self._board.driver(MUX)
        try:
            with self._mounted(mux, self._board.driver(STORAGE)) as reach:
                yield reach
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
                f"{name} does not give its card: {first_line(error)}", f"look at {name} and its card"
            ) from error
        lazy = True
        try:
            yield PartitionAccess(SshShell(name, storage.storage.command_prefix or ["/bin/sh", "-c"]), (path,))
            lazy = False
        finally:
            storage.proxy.unmount(device, lazy=lazy)
