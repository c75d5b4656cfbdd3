"""Our own ssh connection to machines that are no labgrid place (a managed Linux switch)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from pytest_pinet.errors import SshError
from pytest_pinet.lab.ssh.shell import SshShell

CONNECT_TIMEOUT_S = 5


class SshConnection:
    """One master connection that all commands share. ``address`` is ``ssh://user@host:port`` or ``user@host``."""

    def __init__(self, name: str, address: str, keyfile: str | None = None) -> None:
        url = urlsplit(address if "://" in address else f"ssh://{address}")
        self._folder = Path(tempfile.mkdtemp(prefix="pinet-ssh-"))
        options = [
            "-F", "none", "-x",
            "-o", "LogLevel=ERROR",
            "-o", "BatchMode=yes",
            "-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}",
            "-o", "UserKnownHostsFile=/dev/null",
            "-o", "StrictHostKeyChecking=no",
            "-o", f"ControlPath={self._folder / 'control'}",
        ]  # fmt: skip
        if keyfile:
            options += ["-i", keyfile]
        destination = ["-p", str(url.port or 22), "-l", url.username or "root", url.hostname or address]
        self._exit = ["ssh", *options, "-O", "exit", *destination]
        why = self._open(["ssh", "-f", "-N", "-M", *options, *destination])
        if why is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise SshError(f"no ssh connection to {name} at {address}: {why}", "check its address, user and key")
        self.shell = SshShell(name, ["ssh", *options, *destination])

    def _open(self, master: list[str]) -> str | None:
        """Start the master; return None, or why it failed. The log is a file: the master would keep a pipe open."""
        log = self._folder / "log"
        with log.open("wb") as stream:
            try:
                done = subprocess.run(
                    master,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    timeout=CONNECT_TIMEOUT_S + 3,
                    check=False,
                    start_new_session=True,
                )
            except subprocess.TimeoutExpired:
                return f"no answer within {CONNECT_TIMEOUT_S + 3} s"
        return None if done.returncode == 0 else log.read_text(errors="replace").strip() or f"exit {done.returncode}"

    def close(self) -> None:
        """End the master connection; does nothing when it is gone."""
        try:
            subprocess.run(self._exit, capture_output=True, timeout=3, check=False)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
