"""labgrid's SSHDriver with a fast deactivation, and an immediate error when the node refuses the login."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Callable

import attr
from labgrid.driver.exception import ExecutionError
from labgrid.factory import target_factory

from pytest_pinet.errors import SshError
from pytest_pinet.lab.labgrid_private import SSHDriverWithHooks

CLOSE_TIMEOUT_S = 2.0


class SshRefused(SshError):
    """The node answers over ssh, but refuses the login."""


def _is_own(record: logging.LogRecord) -> bool:
    """Return whether a message is not a copy of ssh's output.

    labgrid logs each line of each try as a warning. While a node boots, these are hundreds of "Connection refused",
    which are expected. The error of the last try has ssh's words.
    """
    return not str(record.msg).startswith("ssh: ")


@target_factory.reg_driver
@attr.s(eq=False)
class PiSSHDriver(SSHDriverWithHooks):
    """An SSHDriver that is deactivated within seconds, whatever state the node is in.

    If the link is dead, labgrid's driver waits up to two minutes for its keepalive process. It also retries refused
    credentials until its timeout; here activation raises SshError when the node refuses the login.

    Binds to:
        networkservice (NetworkService)
    Implements:
        CommandProtocol, FileTransferProtocol
    Arguments:
        as SSHDriver
    """

    _given_up = False

    def on_activate(self) -> None:
        self._given_up = False
        super().on_activate()

    def give_up(self) -> None:
        """End an activation at once while it waits for an answer. Other threads may call this."""
        self._given_up = True
        if self.process is not None and self.process.poll() is None:
            self.process.kill()

    def start_master(self, start: Callable[[], str]) -> str:
        if self._given_up:
            raise SshError(f"{self.target.name}: stopped waiting for ssh, because its kernel panicked")
        self.logger.addFilter(_is_own)
        try:
            return start()
        except ExecutionError as error:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            shutil.rmtree(self.tmpdir, ignore_errors=True)
            said = [line.decode("utf-8", "replace").strip() for line in error.stdout or () if line.strip()]
            if any("Permission denied" in line for line in said):
                raise SshRefused(
                    f"{self.target.name}: ssh refused {self.login}: {said[-1]}",
                    "correct user, password or keyfile of the ssh driver in the lab file, or add the key on the node",
                ) from None
            # Report ssh's own message instead of its command line.
            raise ExecutionError(f"{self.login}: {said[-1] if said else error.msg}") from None
        finally:
            self.logger.removeFilter(_is_own)

    def end_keepalive(self, keepalive: subprocess.Popen[str]) -> None:
        keepalive.kill()
        keepalive.wait()
        # Do not read to the end: the ssh master also holds the pipe, until the far end answers.
        for stream in (keepalive.stdin, keepalive.stdout):
            if stream is not None:
                stream.close()

    def end_master(self, ssh: str) -> None:
        # "-O exit" talks to the master process on this machine, never to the node.
        command = [ssh, "-F", "none", "-o", f"ControlPath={self.control}", "-O", "exit", "node"]
        try:
            subprocess.run(command, capture_output=True, timeout=CLOSE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            self.logger.warning("the ssh master of %s did not end", self.target.name)
        self.process.stdout.close()
        shutil.rmtree(self.tmpdir, ignore_errors=True)
