"""The only module that overrides or uses private methods and attributes of labgrid, each with its reason.

labgrid may change them in any release. Therefore setup.cfg bounds labgrid's version, each class here gives them public
names for our drivers, and ``tests/unit/lab/labgrid/test_private.py`` fails when labgrid changes one of them. After such
a failure: read labgrid's change, adapt the driver, record the new source in that test, move the bound in setup.cfg.
"""

from __future__ import annotations

import abc
import subprocess
from collections.abc import Callable
from typing import Any

import attr
from labgrid.driver import SerialDriver, ShellDriver, SSHDriver
from labgrid.resource import EthernetPort
from labgrid.step import step
from labgrid.util import PtxExpect

__all__ = [
    "EthernetPort",
    "SSHDriverWithHooks",
    "SerialDriverWithHooks",
    "ShellDriverWithHooks",
    "mount_partition",
    "remote_data",
]

# labgrid declares EthernetPort without eq=False. An EthernetPort is therefore unhashable, and no driver can bind it. We
# found no labgrid issue about this: labgrid has no driver that binds an EthernetPort.
EthernetPort.__hash__ = object.__hash__
EthernetPort.__eq__ = object.__eq__


@attr.s(eq=False)
class SSHDriverWithHooks(SSHDriver):  # type: ignore[misc]  # labgrid is not typed
    """An SSHDriver with methods to override for the start of the ssh master and the end of the connection.

    Upstream: https://github.com/labgrid-project/labgrid/issues/277 (ssh hangs for a long time after a power cut;
    closed, but the end of the keepalive process still waits up to two minutes) and
    https://github.com/labgrid-project/labgrid/pull/715 (labgrid retries every failure to connect until the timeout). We
    found no issue that requests an immediate end when the login is refused.
    """

    # The latest ssh master.
    process: Any = None

    @abc.abstractmethod
    def start_master(self, start: Callable[[], str]) -> str:
        """Call ``start``, which returns the path of the control socket. labgrid retries after an ExecutionError."""

    @abc.abstractmethod
    def end_keepalive(self, keepalive: subprocess.Popen[str]) -> None:
        """End the process that keeps the connection open."""

    @abc.abstractmethod
    def end_master(self, ssh: str) -> None:
        """End the master. ``ssh`` is the ssh command from labgrid's configuration."""

    @property
    def login(self) -> str:
        return f"{self._get_username()}@{self.networkservice.address}"

    def _start_own_master_once(self, timeout: int) -> str:
        start = super()._start_own_master_once
        return self.start_master(lambda: str(start(timeout)))

    def _stop_keepalive(self) -> None:
        keepalive, self._keepalive = self._keepalive, None  # type: ignore[has-type]
        if keepalive is not None:
            self.end_keepalive(keepalive)

    def _cleanup_own_master(self) -> None:
        self.end_master(self._ssh)


@attr.s(eq=False)
class SerialDriverWithHooks(SerialDriver):  # type: ignore[misc]  # labgrid is not typed
    """A SerialDriver with a method to override for the source of received bytes.

    Upstream: https://github.com/labgrid-project/labgrid/issues/1400 (console output is lost while nothing reads) and
    https://github.com/labgrid-project/labgrid/issues/1851 (labgrid's steps work in one thread only, so a thread that
    reads cannot call ``read``).
    """

    @abc.abstractmethod
    def take(self, size: int, timeout_s: float, max_size: int | None) -> bytes:
        """Return at least one received byte, and ``size`` bytes if they arrive in time. Raises pexpect.TIMEOUT."""

    def forget_expected(self) -> None:
        """Discard what ``expect`` has read so far, so that old output is not taken for an answer to a new command."""
        self._expect = PtxExpect(self)

    def _read(self, size: int = 1, timeout: float = 0.0, max_size: int | None = None) -> bytes:
        return self.take(size, timeout, max_size)


@attr.s(eq=False)
class ShellDriverWithHooks(ShellDriver):  # type: ignore[misc]  # labgrid is not typed
    """A ShellDriver with a method to override for the way from an open console to a prompt.

    Upstream: https://github.com/labgrid-project/labgrid/issues/1749 (after the login labgrid runs ``dmesg -n 1``, which
    hides kernel messages; no option turns it off). We found no issue about its wait for two seconds of silence before
    it presses Enter.
    """

    @abc.abstractmethod
    def find_prompt(self) -> bool:
        """Return when the prompt is reached; the result says whether a login was needed."""

    @property
    def at_prompt(self) -> bool:
        return bool(self._status == 1)

    @step()  # type: ignore[untyped-decorator]
    def _await_login(self) -> None:
        logged_in = self.find_prompt()
        self._status = 1
        if logged_in:
            self._check_prompt()


def remote_data(resource: Any) -> dict[str, Any]:
    """Return the coordinator's latest data of a resource; ``params`` is missing once its exporter is gone.

    The session's thread replaces the object, so read it once. labgrid's own ``poll`` raises KeyError for all resources
    of a place once one of them has no ``params``; we found no issue about this.
    """
    data: dict[str, Any] = resource._remote_entry.data
    return data


def mount_partition(storage: Any, partition: int, retries: int) -> tuple[str, str]:
    """Mount a partition of a USBStorageDriver's medium; return its device and its mount point.

    labgrid's public ``write_files`` mounts, copies and unmounts in one call, and cannot read. Upstream:
    https://github.com/labgrid-project/labgrid/issues/1357 (the medium appears with a delay).
    """
    storage._wait_for_medium(partition)
    storage._start_wrapper()
    device = str(storage._get_devpath(partition))
    return device, str(storage.proxy.mount(device, retries))
