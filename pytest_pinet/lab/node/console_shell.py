"""Commands over the login on a serial console, for nodes without any network for ssh (``management: serial``).

Each command travels as gzip and base64 in short lines, because a shell on a terminal limits the length of a line and
kernel messages may appear between any two characters. gzip's checksum detects damaged text, which is then sent again.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import os
import re
import threading
import time
import zlib
from collections.abc import Sequence
from typing import IO, Protocol

from pexpect import TIMEOUT

from pytest_pinet.errors import LabError, SshError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Completed, Process, still_runs
from pytest_pinet.lab.ssh import ENGLISH, LOST_CONNECTION, STOP_TIMEOUT_S, WATCH_INTERVAL_S, SshShell

# The editor of busybox's shell takes 1,024 characters in a line.
CHUNK = 600
# For the transfer of a command and its output, at 11 kB/s (115,200 baud).
TRANSFER_S = 20.0
# The rate of a file in base64, when the node also echoes it, and the largest file, compressed: two minutes.
BYTES_PER_S = 4_000
LARGEST = 500_000
ATTEMPTS = 4
# A process is looked at not more often than this: each look takes 50 ms of the console, and starts some processes.
LOOK_S = 1.0
_ACT = "look at the console of the node; power-cycle it when it hangs"


class LoggedInConsole(Protocol):
    """The two directions of a serial console with a logged-in shell."""

    def send(self, data: bytes) -> None:
        """Send bytes to the node."""

    def take(self, size: int, timeout_s: float, max_size: int | None) -> bytes:
        """Return at least one received byte. Raises pexpect.TIMEOUT if none arrives in time."""


class _Damaged(Exception):
    """Text arrived with other text in between."""


class ConsoleShell(SshShell):
    """A shell over the serial console of ``name``. It answers as a shell over ssh does, but much slower."""

    def __init__(self, name: str, line: LoggedInConsole) -> None:
        super().__init__(name, [])
        self._line = line
        # Commands of several threads must not mix.
        self._lock = threading.RLock()
        self._number = 0
        self._folder = f"/tmp/pinet-console-{os.getpid()}"

    def feed(self, command: str, source: IO[bytes], timeout_s: float) -> Completed:
        """Run a command like ``run``, with a small file as standard input. Raises LabError for a large one."""
        data = gzip.compress(source.read(), mtime=0)
        self._check_size(len(data))
        with self._lock:
            file = self._write(data, "in")
            try:
                return self.run(f"{{ {command}\n}} <{file}.in", timeout_s)
            finally:
                self.forget(file)

    def fetch(self, command: str, timeout_s: float) -> bytes:
        """Return the standard output of a command, which must give the same output when it is repeated.

        Raises LabError if the command fails or its output is large, and SshError.
        """
        size = self.run(f"{{ {command}\n}} | gzip -c | wc -c", timeout_s).stdout.strip()
        self._check_size(int(size) if size.isdigit() else 0)
        return super().fetch(command, timeout_s)

    def _check_size(self, size: int) -> None:
        if size > LARGEST:
            raise LabError(
                f"{self.name} is reached by its serial console (management: serial), which is too slow for a file of "
                f"{size / 1e6:.1f} MB: it takes about {size * 4 / 3 / BYTES_PER_S / 60:.0f} minutes",
                f"connect {self.name} to a network, and change `management:` in the lab file; only small builds, such "
                "as a module, can be deployed over the console",
            )

    def spawn(self, command: str) -> Process:
        return ConsoleProcess(self, command)

    def _run(self, command: str, timeout_s: float, source: int | IO[bytes]) -> tuple[int, bytes, str]:
        with self._lock:
            file = self.upload(command)
            self.exchange(f"sh {file}.sh </dev/null >{file}.out 2>{file}.err; echo $? >{file}.rc", timeout_s)
            try:
                status, output, error_text = self.download([f"cat {file}.{part}" for part in ("rc", "out", "err")])
            finally:
                self.forget(file)
        return int(status), output, error_text.decode("utf-8", "replace")

    def upload(self, command: str) -> str:
        """Write a command line to a file on the node. Return the path without its suffix."""
        return self._write(gzip.compress(f"{ENGLISH}{command}".encode(), mtime=0), "sh")

    def _write(self, data: bytes, suffix: str) -> str:
        """Write what this gzip data contains to a file on the node. Return the path without its suffix."""
        with self._lock:
            self._number += 1
            file = f"{self._folder}/{self._number}"
            text = base64.b64encode(data).decode()
            chunks = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
            for _ in range(ATTEMPTS):
                self.exchange(f"mkdir -p {self._folder} && : >{file}.b64", TRANSFER_S)
                for chunk in chunks:
                    self.exchange(f"printf %s {chunk} >>{file}.b64", TRANSFER_S)
                if self.exchange(f"base64 -d {file}.b64 | gunzip >{file}.{suffix}", TRANSFER_S)[0] == 0:
                    return file
        raise SshError(f"{self.name} does not receive commands over its serial console undamaged", _ACT)

    def download(self, commands: Sequence[str]) -> list[bytes]:
        """Return the output of each of these commands, which must give the same output when they are repeated."""
        each = (f"{{ {command}; }} | gzip -c | base64; echo ," for command in commands)
        # A word of gzip or of its loader on standard error would damage the output: both go to the same terminal.
        words = f"{{ {'; '.join(each)}; }} 2>/dev/null"
        for _ in range(ATTEMPTS):
            try:
                parts = self.exchange(words, TRANSFER_S, LARGEST * 4 / 3 / BYTES_PER_S)[1].split(b",")
                return [_unpacked(part) for part in parts[: len(commands)]]
            except _Damaged:
                continue
        raise SshError(f"the output of {self.name} does not arrive undamaged over its serial console", _ACT)

    def forget(self, file: str) -> None:
        self.exchange(f"rm -f {file}.*; rmdir {self._folder} 2>/dev/null", TRANSFER_S)

    def exchange(self, words: str, timeout_s: float, flowing_s: float = 0.0) -> tuple[int, bytes]:
        """Run a short line at the prompt. Return its status and its output. Raises SshError if it does not end.

        ``timeout_s`` begins again with each received text, for at most ``flowing_s`` longer.
        """
        with self._lock:
            self._number += 1
            mark = f"net{self._number}"
            # The echo of the line has the mark with quotes in it. A space in front keeps it out of bash's history.
            self._line.send(f" echo 'pi''{mark}b'; {words}; echo 'pi''{mark}e' $?\n".encode())
            pattern = re.compile(rf"pi{mark}b\r*\n(.*)pi{mark}e (\d+)\r*\n".encode(), re.DOTALL)
            deadline = time.monotonic() + timeout_s
            latest = deadline + flowing_s
            seen = b""
            try:
                while (found := pattern.search(seen)) is None:
                    if time.monotonic() > deadline:
                        short = " ".join(words.split()[:3])
                        message = f"{self.name} did not answer on its serial console within {timeout_s:.0f} s"
                        raise SshError(f"{message} ({short} ...)", _ACT)
                    try:
                        seen += self._line.take(1, WATCH_INTERVAL_S, None)
                        deadline = max(deadline, min(latest, time.monotonic() + timeout_s))
                    except TIMEOUT:
                        self.watch()
            except BaseException:
                # Ctrl-C ends the command, so that the next one finds a prompt.
                self._line.send(b"\x03\n")
                raise
            return int(found[2]), found[1]


def _unpacked(text: bytes) -> bytes:
    """Return the data of one part. Raises _Damaged."""
    try:
        return gzip.decompress(base64.b64decode(b"".join(text.split()), validate=True))
    except (binascii.Error, OSError, EOFError, zlib.error) as error:
        raise _Damaged from error


class ConsoleProcess:
    """A command that runs on the node while the console is free for others."""

    def __init__(self, shell: ConsoleShell, command: str) -> None:
        self._shell, self._command = shell, command
        self._file = shell.upload(command)
        self._output = b""
        self._seen = 0
        self._status: int | None = None
        self._looked = float("-inf")
        self._done: Completed | None = None
        file = self._file
        # The trap lets this shell survive the signal that ends its command, so that it writes the status.
        started = (
            f"trap : TERM; echo $$ >{file}.pid; sh {file}.sh </dev/null >{file}.out 2>{file}.err; echo $? >{file}.rc"
        )
        shell.exchange(f"(setsid sh -c '{started}' >/dev/null 2>&1 &)", TRANSFER_S)

    def _look(self) -> None:
        """Read the new output and the exit status, at most every LOOK_S."""
        if self._done is not None or time.monotonic() < self._looked + LOOK_S:
            return
        # The status first: output that comes before the end is complete then.
        status, fresh = self._shell.download(
            [f"cat {self._file}.rc", f"tail -c +{len(self._output) + 1} {self._file}.out"]
        )
        self._output += fresh
        self._status = int(status) if status.strip() else None
        self._looked = time.monotonic()

    def poll(self) -> int | None:
        self._look()
        return self._status

    def lines(self) -> list[str]:
        self._look()
        complete = self._output[: self._output.rfind(b"\n") + 1]
        fresh, self._seen = complete[self._seen :], len(complete)
        return fresh.decode("utf-8", "replace").splitlines()

    def wait(self, timeout_s: float) -> Completed:
        deadline = time.monotonic() + timeout_s
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise still_runs(self._command, self._shell.name, timeout_s)
            self._shell.watch()
            time.sleep(WATCH_INTERVAL_S)
        return self._completed()

    def stop(self) -> Completed:
        if self._done is None and self.poll() is None:
            # Without "--": the kill of dash does not accept it after a signal.
            group = f"-$(cat {self._file}.pid)"
            self._shell.exchange(f"kill -TERM {group}; kill -CONT {group}", TRANSFER_S)
            Deadline(STOP_TIMEOUT_S).wait_until(lambda: self.poll() is not None, WATCH_INTERVAL_S)
            if self._status is None:
                self._shell.exchange(f"kill -KILL {group}", TRANSFER_S)
        return self._completed()

    def _completed(self) -> Completed:
        if self._done is None:
            self._looked = float("-inf")
            self._look()
            (error_text,) = self._shell.download([f"cat {self._file}.err"])
            self._shell.forget(self._file)
            self._done = Completed(
                LOST_CONNECTION if self._status is None else self._status,
                self._output.decode("utf-8", "replace"),
                error_text.decode("utf-8", "replace"),
            )
        return self._done
