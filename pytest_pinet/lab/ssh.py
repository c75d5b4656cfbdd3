"""Commands on another machine through the OpenSSH client: a shell over an open connection, and our own connection."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from pytest_pinet.errors import LabError, SshError, mistake_in
from pytest_pinet.execution.shell import Completed, Process, Spool, last_line, ssh_options, still_runs
from pytest_pinet.lab.lock_agent import refusal
from pytest_pinet.model.forms import ssh_address

LOST_CONNECTION = 255
STOP_TIMEOUT_S = 2.0
SILENT_TIMEOUT_S = 2.0
# A slow board might miss the time of one command, and then answer the next one.
SILENT_AFTER = 2
WATCH_INTERVAL_S = 0.1
_ACT = "look at the node's console; power-cycle it when it hangs"
_FORWARDING = "set AllowStreamLocalForwarding yes in its sshd_config"
CONNECT_TIMEOUT_S = 5
# The first words of each command line print this line to both outputs. What is before it comes from the login: a
# greeting of ~/.bashrc, a banner, a warning about the locale.
_BEGIN = "pinet: begin"
_BEGUN = re.compile(rf"{_BEGIN} (\d+)\n".encode())


# Messages and decimal points that this package knows, whatever the language of the node.
ENGLISH = "LC_ALL=C; export LC_ALL; "


def _begun(command: str) -> str:
    return f"echo '{_BEGIN}' $$; echo '{_BEGIN}' $$ >&2; {ENGLISH}{command}"


def _of_command(output: bytes) -> bytes:
    """Return the output of the command; all output if the command did not begin, since it says why."""
    found = _BEGUN.search(output)
    return output if found is None else output[found.end() :]


class SshProcess:
    """A remote command that runs. Ctrl-C on the terminal does not reach it."""

    def __init__(self, shell: SshShell, command: str) -> None:
        self._shell, self._command = shell, command
        self._stdout, self._stderr = Spool(), Spool()
        self._seen = 0
        # sshd makes the login shell a session leader, so its pid is also the id of the process group of its children.
        # The shell's standard input ends when this process ends for any reason, and the watcher then kills the group.
        # Else the traffic of a killed runner would share the link with the next runner.
        watch = "exec 3<&0 </dev/null; { cat <&3; kill -- -$$; } >/dev/null 2>&1 & exec 3<&-"
        self._local = subprocess.Popen(
            [*shell.argv, _begun(f"{watch}; {shell.fence}{command}")],
            stdin=subprocess.PIPE,
            stdout=self._stdout.fileno,
            stderr=self._stderr.fileno,
            start_new_session=True,
        )

    def _output(self) -> bytes:
        output = self._stdout.read()
        # Before the end, a login that still prints its greeting has no output of the command.
        return _of_command(output) if self._local.poll() is not None or _BEGUN.search(output) else b""

    def _completed(self) -> Completed:
        status = self._local.poll()
        if status is not None and self._local.stdin is not None:
            self._local.stdin.close()
        return Completed(
            returncode=LOST_CONNECTION if status is None else status,
            stdout=self._output().decode("utf-8", "replace"),
            stderr=_of_command(self._stderr.read()).decode("utf-8", "replace"),
        )

    def poll(self) -> int | None:
        return self._local.poll()

    def wait(self, timeout_s: float) -> Completed:
        try:
            self._local.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise still_runs(self._command, self._shell.name, timeout_s) from None
        return self._completed()

    def stop(self) -> Completed:
        """End the remote process group, then the local client. Does not wait for a node that does not answer."""
        if self._local.poll() is None:
            if (begun := _BEGUN.search(self._stdout.read())) is not None:
                group = f"-{int(begun[1])}"
                try:
                    # CONT wakes a stopped process, which would not handle TERM before.
                    self._shell.run(f"kill -TERM -- {group}; kill -CONT -- {group}", timeout_s=STOP_TIMEOUT_S)
                    self._local.wait(STOP_TIMEOUT_S)
                except (SshError, subprocess.TimeoutExpired):
                    pass
            if self._local.poll() is None:
                self._local.kill()
                self._local.wait()
        return self._completed()

    def lines(self) -> list[str]:
        output = self._output()
        complete = output[: output.rfind(b"\n") + 1]
        fresh, self._seen = complete[self._seen :], len(complete)
        return fresh.decode("utf-8", "replace").splitlines()


class SshShell:
    """Runs command lines on ``name``. ``prefix`` is the ssh command up to and including the host.

    ``fence`` is the start of each command line, which ends it if another process holds the board now. A command may
    take ``patience`` times as long as usual.
    """

    def __init__(self, name: str, prefix: Sequence[str], fence: str = "", patience: float = 1.0) -> None:
        self.name = name
        self.argv = [*prefix]
        self.fence = fence
        self._patience = patience
        self.watch: Callable[[], None] = lambda: None
        # How many commands in turn had no answer.
        self._unanswered = 0

    def watch_with(self, watch: Callable[[], None]) -> None:
        """Call ``watch`` while a command runs. An exception from it ends the wait."""
        self.watch = watch

    def fence_with(self, fence: str) -> None:
        """Begin each further command line with this fence."""
        self.fence = fence

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if self._unanswered >= SILENT_AFTER:
            # The node did not answer the last times. Try again, but with a shorter wait for each of many commands.
            timeout_s = min(timeout_s, SILENT_TIMEOUT_S)
        return _completed(*self._run(command, timeout_s, subprocess.DEVNULL))

    def feed(self, command: str, source: IO[bytes], timeout_s: float) -> Completed:
        """Run a command like ``run``, with the rest of the file ``source`` as standard input. Raises SshError."""
        return _completed(*self._run(command, timeout_s, source))

    def fetch(self, command: str, timeout_s: float) -> bytes:
        """Return the standard output of a command. Raises LabError if the command fails, and SshError."""
        returncode, output, error_text = self._run(command, timeout_s, subprocess.DEVNULL)
        if returncode:
            raise LabError(f"`{command[:80]}` failed at {self.name}: {last_line(error_text)[:200]}", _ACT)
        return output

    def _run(self, command: str, timeout_s: float, source: int | IO[bytes]) -> tuple[int, bytes, str]:
        timeout_s *= self._patience
        # Files, not pipes: the ssh master inherits them too, and keeps a pipe open when the far end hangs.
        stdout, stderr = Spool(), Spool()
        process = subprocess.Popen(
            [*self.argv, _begun(f"{self.fence}{command}")],
            stdin=source,
            stdout=stdout.fileno,
            stderr=stderr.fileno,
            start_new_session=True,
        )
        try:
            self._await(process, timeout_s)
        except subprocess.TimeoutExpired:
            # After a short wait, the node may only be slow: the next command has its whole time.
            self._unanswered += timeout_s > SILENT_TIMEOUT_S * self._patience
            short = " ".join(command.split()[:3])
            message = f"{self.name} did not answer over ssh within {timeout_s:.0f} s ({short} ...)"
            raise SshError(message, _ACT) from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._unanswered = 0
        error_text = _of_command(stderr.read()).decode("utf-8", "replace")
        if process.returncode == LOST_CONNECTION:
            why = last_line(error_text)
            raise SshError(f"the ssh connection to {self.name} was lost{': ' + why if why else ''}", _ACT)
        if (lost := refusal(self.name, process.returncode, error_text)) is not None:
            raise lost
        return process.returncode, _of_command(stdout.read()), error_text

    def forward_socket(self, there: str, here: Path, undo: bool = False) -> None:
        """Connect the path ``there`` on the machine to a socket of this machine, or end this. Raises SshError."""
        argv = [self.argv[0], "-O", "cancel" if undo else "forward", "-R", f"{there}:{here}", *self.argv[1:]]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=CONNECT_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise SshError(f"ssh to {self.name} forwards no socket: no answer", _ACT) from None
        if done.returncode and not undo:
            said = done.stderr.strip() or f"exit status {done.returncode}"
            raise SshError(f"ssh to {self.name} forwards no socket: {said}", _FORWARDING)

    def doubt(self) -> None:
        """Wait less for the next answer, because the node's kernel broke and might not answer."""
        self._unanswered = SILENT_AFTER

    def _await(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while not _ends_within(process, max(0.0, min(WATCH_INTERVAL_S, left := end - time.monotonic()))):
            if left <= WATCH_INTERVAL_S:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
            self.watch()

    def spawn(self, command: str) -> Process:
        return SshProcess(self, command)


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end of a process; return False if it does not end in time.

    ``Popen.wait`` sleeps for up to 50 ms in between, which is longer than most commands take.
    """
    with os.fdopen(os.pidfd_open(process.pid), "rb", buffering=0) as handle:
        end = select.poll()
        end.register(handle, select.POLLIN)
        ended = bool(end.poll(seconds * 1000))
    if ended:
        process.wait()
    return ended


def _completed(returncode: int, output: bytes, error_text: str) -> Completed:
    return Completed(returncode, output.decode("utf-8", "replace"), error_text)


class NoSshConnection(SshError):
    """No connection. ``why`` is all that ssh printed about it."""

    def __init__(self, message: str, act: str, why: str) -> None:
        super().__init__(message, act)
        self.why = why


def ssh_words(address: str, keyfile: str | None) -> tuple[list[str], list[str]]:
    """Return the options of ssh, and the words for the destination ``ssh://user@host:port`` or ``user@host``.

    Raises ConfigError.
    """
    with mistake_in("address"):
        found = ssh_address(address)
    options = ["-F", "none", "-x", *ssh_options(f"ConnectTimeout={CONNECT_TIMEOUT_S}")]
    if keyfile:
        options += ["-i", keyfile]
    return options, ["-p", str(found.port or 22), "-l", found.user or "root", found.host]


class SshConnection:
    """One master connection that all commands share. Raises NoSshConnection.

    ``address`` is for messages. ``words`` are the options of ssh and the words for the destination (``ssh_words``).
    """

    def __init__(
        self,
        name: str,
        address: str,
        words: tuple[Sequence[str], Sequence[str]],
        timeout_s: float = CONNECT_TIMEOUT_S + 3,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pinet-ssh-"))
        self._timeout_s = timeout_s
        options, destination = words
        options = [*options, "-o", f"ControlPath={self._folder / 'control'}"]
        self._exit = ["ssh", *options, "-O", "exit", *destination]
        why = self._open(["ssh", "-f", "-N", "-M", *options, *destination])
        if why is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            message = f"no ssh connection to {name} at {address}: {why}"
            raise NoSshConnection(message, "check its address, user and key", why)
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
                    timeout=self._timeout_s,
                    check=False,
                    start_new_session=True,
                )
            except subprocess.TimeoutExpired:
                return f"no answer within {self._timeout_s:.0f} s"
        return None if done.returncode == 0 else log.read_text(errors="replace").strip() or f"exit {done.returncode}"

    def close(self) -> None:
        try:
            subprocess.run(self._exit, capture_output=True, timeout=3, check=False)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
