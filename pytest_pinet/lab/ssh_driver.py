"""labgrid's SSHDriver with a bounded end, and an end at once where the node refuses the login.

With a dead link labgrid's own waits up to two minutes for its keepalive process when it is deactivated. It also tries
refused credentials again until its timeout, as if the node did not answer.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import attr
from labgrid.driver import SSHDriver
from labgrid.driver.exception import ExecutionError
from labgrid.factory import target_factory

from pytest_pinet.errors import SshError

CLOSE_TIMEOUT_S = 2.0


@target_factory.reg_driver
@attr.s(eq=False)
class PiSSHDriver(SSHDriver):  # type: ignore[misc]  # labgrid is not typed
    """SSHDriver that lets go of a node within seconds, whatever state the node is in.

    Activation raises SshError when the node refuses the login.

    Binds to:
        networkservice (NetworkService)
    Implements:
        CommandProtocol, FileTransferProtocol
    Arguments:
        as SSHDriver
    """

    process: Any = None
    _given_up = False

    def on_activate(self) -> None:
        self._given_up = False
        super().on_activate()

    def give_up(self) -> None:
        """End an activation that waits for an answer at once; may be called from another thread."""
        self._given_up = True
        if self.process is not None and self.process.poll() is None:
            self.process.kill()

    def _start_own_master_once(self, timeout: int) -> str:
        if self._given_up:
            raise SshError(f"{self.target.name}: gave up waiting for ssh")
        try:
            return str(super()._start_own_master_once(timeout))
        except ExecutionError as error:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            shutil.rmtree(self.tmpdir, ignore_errors=True)
            said = [line.decode("utf-8", "replace").strip() for line in error.stdout or () if line.strip()]
            login = f"{self._get_username()}@{self.networkservice.address}"
            if any("Permission denied" in line for line in said):
                raise SshError(
                    f"{self.target.name}: ssh refused {login}: {said[-1]}",
                    "correct user, password or keyfile of the ssh driver in the lab file, or add the key on the node",
                ) from None
            # In ssh's own words, instead of its command line.
            raise ExecutionError(f"{login}: {said[-1] if said else error.msg}") from None

    def _stop_keepalive(self) -> None:
        keepalive, self._keepalive = self._keepalive, None  # type: ignore[has-type]
        if keepalive is not None:
            keepalive.kill()
            keepalive.wait()
            # Not read to its end: the ssh master holds the pipe too, and lets go of it only when the far end answers.
            for stream in (keepalive.stdin, keepalive.stdout):
                if stream is not None:
                    stream.close()

    def _cleanup_own_master(self) -> None:
        # "-O exit" speaks to the master process on this machine, never to the node.
        command = [self._ssh, "-F", "none", "-o", f"ControlPath={self.control}", "-O", "exit", "node"]
        try:
            subprocess.run(command, capture_output=True, timeout=CLOSE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            self.logger.warning("the ssh master of %s did not end", self.target.name)
        self.process.stdout.close()
        shutil.rmtree(self.tmpdir, ignore_errors=True)
