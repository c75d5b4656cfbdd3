"""labgrid's SSHDriver with a bounded end.

With a dead link labgrid's own waits up to two minutes for its keepalive process when it is deactivated.
"""

from __future__ import annotations

import shutil
import subprocess

import attr
from labgrid.driver import SSHDriver
from labgrid.factory import target_factory

CLOSE_TIMEOUT_S = 2.0


@target_factory.reg_driver
@attr.s(eq=False)
class PiSSHDriver(SSHDriver):  # type: ignore[misc]  # labgrid is not typed
    """SSHDriver that lets go of a node within seconds, whatever state the node is in.

    Binds to:
        networkservice (NetworkService)
    Implements:
        CommandProtocol, FileTransferProtocol
    Arguments:
        as SSHDriver
    """

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
