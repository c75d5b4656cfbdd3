"""A shell on another machine, by the OpenSSH client over a connection that is already open."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Sequence

from pytest_pinet.errors import SshError
from pytest_pinet.shell import Completed, Process

LOST_CONNECTION = 255
_ACT = "look at the node's console; power-cycle it when it hangs"


class SshProcess:
    """A remote command that runs. Its output goes to files here, so that no pipe can fill up and block it."""

    def __init__(self, shell: SshShell, command: str) -> None:
        self._shell = shell
        self._stdout = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._read = 0
        self._pid: int | None = None
        # sshd makes the login shell a session leader, so its pid names the group of all that it starts.
        self._local = subprocess.Popen(
            [*shell.argv, f"echo $$; {command}"],
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            stderr=self._stderr,
            start_new_session=True,
        )

    def _output(self) -> tuple[str, str]:
        texts = []
        for file in (self._stdout, self._stderr):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        pid_line, newline, rest = texts[0].partition("\n")
        if newline and pid_line.isdigit():
            self._pid = int(pid_line)
            return rest, texts[1]
        return "", texts[1]

    def poll(self) -> int | None:
        return self._local.poll()

    def wait(self, timeout_s: float) -> Completed:
        try:
            returncode = self._local.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"a command on {self._shell.name} still runs after {timeout_s:.0f} s") from None
        return Completed(returncode, *self._output())

    def stop(self) -> Completed:
        """End the remote process group, then the local client; a node that does not answer is not waited for."""
        if self._local.poll() is None:
            self._output()
            if self._pid is not None:
                try:
                    self._shell.run(f"kill -TERM -- -{self._pid}", timeout_s=3.0)
                    self._local.wait(2.0)
                except (SshError, subprocess.TimeoutExpired):
                    pass
            if self._local.poll() is None:
                self._local.kill()
                self._local.wait()
        return Completed(self._local.returncode, *self._output())

    def lines(self) -> list[str]:
        output, _ = self._output()
        complete = output[: output.rfind("\n") + 1]
        new, self._read = complete[self._read :], len(complete)
        return new.splitlines()


class SshShell:
    """Runs command lines on ``name``; ``prefix`` is the ssh command up to and including the host."""

    def __init__(self, name: str, prefix: Sequence[str]) -> None:
        self._name = name
        self.argv = [*prefix]

    @property
    def name(self) -> str:
        return self._name

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        process = subprocess.Popen(
            [*self.argv, command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            short = shlex.join(command.split()[:3])
            raise SshError(
                f"{self.name} did not answer over ssh within {timeout_s:.0f} s ({short} ...)", _ACT
            ) from None
        except BaseException:
            process.kill()
            process.communicate()
            raise
        if process.returncode == LOST_CONNECTION:
            why = stderr.decode("utf-8", "replace").strip().splitlines()
            raise SshError(f"the ssh connection to {self.name} was lost{': ' + why[-1] if why else ''}", _ACT)
        return Completed(process.returncode, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"))

    def spawn(self, command: str) -> Process:
        return SshProcess(self, command)
