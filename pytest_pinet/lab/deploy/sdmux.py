"""A board whose card hangs on a USB-SD-Mux: the card is written by the host that the mux is at, with the board off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_pinet.errors import LabError, first_line
from pytest_pinet.lab.deploy.boot_partition import Reach
from pytest_pinet.lab.deploy.way import Board
from pytest_pinet.lab.ssh import SshShell

MUX, STORAGE = "USBSDMuxDriver", "USBStorageDriver"
BOOT_PARTITION = 1
MOUNT_RETRIES = 5


class SdMux:
    """The first partition of the card, mounted on the mux's host by labgrid's agent (udisks2) while it is written.

    What is there is read over ssh, from the running board.
    """

    name = "SD mux"
    on_board = True

    def __init__(self, board: Board) -> None:
        self._board = board

    @staticmethod
    def serves(board: Board) -> bool:
        """Whether the lab has a mux, and storage behind it, for this board."""
        return board.driver(MUX) is not None and board.driver(STORAGE) is not None

    def reach(self) -> Reach:
        return Reach(self._board.shell)

    @contextmanager
    def writing(self) -> Iterator[Reach]:
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
    def _mounted(self, mux: Any, storage: Any) -> Iterator[Reach]:
        name = f"the SD mux of {self._board.name}"
        try:
            mux.set_mode("host")
            storage._wait_for_medium(BOOT_PARTITION)
            storage._start_wrapper()
            device = storage._get_devpath(BOOT_PARTITION)
            path = storage.proxy.mount(device, MOUNT_RETRIES)
        except Exception as error:
            raise LabError(
                f"{name} does not give its card: {first_line(error)}", f"look at {name} and its card"
            ) from error
        lazy = True
        try:
            yield Reach(SshShell(name, storage.storage.command_prefix or ["/bin/sh", "-c"]), (path,))
            lazy = False
        finally:
            storage.proxy.unmount(device, lazy=lazy)
