"""The interface between measuring code and the machine where its commands run: an end has only ``run`` and ``spawn``.

Traffic, evidence, tunings and switch backends use a node over ssh and the runner itself in the same way.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import textwrap
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from pytest_pinet.errors import LabError

# Messages show so many characters of a command.
_SHOWN = 60


@dataclass(frozen=True)
class Completed:
    """The exit status and output of a command that ended. Status 255 can also mean that ssh lost the connection."""

    returncode: int
    stdout: str
    stderr: str


class Process(Protocol):
    """A command that was started and can still run."""

    def poll(self) -> int | None:
        """Return the exit status, or None while the command runs."""

    def wait(self, timeout_s: float) -> Completed:
        """Wait for the end of the command. Raises TimeoutError if it takes longer; the command then goes on."""

    def stop(self) -> Completed:
        """End the command, here and on the remote machine, unless it has ended. Return its output so far."""

    def lines(self) -> list[str]:
        """Return the complete lines of standard output since the last call. Never blocks."""


def as_root(command: str) -> str:
    """Return a command line that runs ``command`` as root: directly for root, by sudo without a password otherwise."""
    word = shlex.quote(f"PATH=$PATH:/usr/sbin:/sbin; {command}")
    return f'if [ "$(id -u)" = 0 ]; then sh -c {word}; else sudo -n sh -c {word}; fi'


# What sudo and the shell print if the user cannot become root without a password, or if there is no sudo.
_NO_ROOT = re.compile(
    r"sudo: .*(?:a password is required|a terminal is required|must have a tty|not found)|not in the sudoers|"
    r"is not allowed to (?:execute|run)"
)


def quoted(command: str) -> str:
    """Return a command as messages show it: between backquotes; of a long one the first words, at least the program."""
    lines = textwrap.wrap(" ".join(command.split()), _SHOWN, break_long_words=False, break_on_hyphens=False)
    return f"`{lines[0]}{' ...' if len(lines) > 1 else ''}`"


def still_runs(command: str, name: str, timeout_s: float) -> TimeoutError:
    """Return the error of a command that did not end in time on the machine ``name``."""
    return TimeoutError(f"{quoted(command)} still runs on {name} after {timeout_s:.0f} s")


# Lines on standard error that the system adds to each command, and that say nothing about the command: of the loader
# (a preloaded library that is missing), of the locale, and of sudo on a board whose /etc/hosts lacks its own name.
_OF_THE_SYSTEM = re.compile(
    r"ERROR: ld\.so: object .* cannot be preloaded\b.*: ignored\.|.*setlocale: .*cannot change locale.*|"
    r"perl: warning: .*|\t(?:LANGUAGE|LANG|LC_\w+) = .*|    are supported and installed on your system\.|"
    r"sudo: unable to resolve host .*"
)


def own_lines(error_text: str) -> list[str]:
    """Return the lines on standard error that come from the command itself, without blank ones.

    Standard error never decides whether a command succeeded. It says why a command failed.
    """
    lines = (line.rstrip() for line in error_text.splitlines())
    return [line for line in lines if line and not _OF_THE_SYSTEM.fullmatch(line)]


def last_line(*texts: str) -> str:
    """Return the last line of the command's own (`own_lines`) in the first text that has one; empty if none has."""
    return next((lines[-1].strip() for lines in map(own_lines, texts) if lines), "")


def reason(*texts: str) -> str:
    """Return the last part of the `last_line`: ``Invalid argument`` of ``tee: /sys/x: Invalid argument``."""
    return last_line(*texts).rpartition(": ")[2].rstrip(".") or "no reason given"


def refused_root(done: Completed) -> str | None:
    """Return the line that says why a command of ``as_root`` could not become root; None if it could."""
    lines = done.stderr.splitlines() if done.returncode else []
    return next((line.strip() for line in lines if _NO_ROOT.search(line)), None)


def why_no_root(shell: Shell) -> str | None:
    """Return why the user of this shell cannot run commands as root; None if the user can. Raises SshError."""
    done = shell.run(as_root("true"))
    if done.returncode == 0:
        return None
    return refused_root(done) or last_line(done.stderr) or f"exit status {done.returncode}"


def root_cure(name: str) -> str:
    """Return what to do on the machine ``name`` whose ssh user cannot become root."""
    return (
        f"on {name}: sudo raspi-config nonint do_sudo_pass 1 (Raspberry Pi OS), or: "
        'echo "$USER ALL=(ALL) NOPASSWD: ALL" | sudo tee /etc/sudoers.d/010_pinet; or log in as root'
    )


class Shell(Protocol):
    """A machine that runs POSIX shell command lines."""

    @property
    def name(self) -> str:
        """The name of this machine in messages (``pi4b-1``)."""

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        """Run a command line to its end.

        The caller judges the exit status. Raises SshError if the machine does not answer within ``timeout_s``.
        """

    def spawn(self, command: str) -> Process:
        """Start a command line and return at once. Raises SshError if the machine does not answer."""


def ssh_options(*more: str) -> list[str]:
    """Return the options of ssh for each device of a lab, and these options, as words of a command line.

    ssh asks nothing. The host key is not compared, because a board has another one with each card.
    """
    options = ("LogLevel=ERROR", "BatchMode=yes", "UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", *more)
    return [word for option in options for word in ("-o", option)]


class Spool:
    """An unnamed file for the output of a child, which gets ``fileno``. It is closed when this object is deleted."""

    def __init__(self) -> None:
        self.fileno, path = tempfile.mkstemp(prefix="pinet-")
        Path(path).unlink()
        weakref.finalize(self, os.close, self.fileno)

    def read(self, offset: int = 0) -> bytes:
        """Return all bytes from ``offset`` on. Uses pread, since the child shares the offset of the file."""
        chunks = []
        while chunk := os.pread(self.fileno, 1 << 20, offset):
            chunks.append(chunk)
            offset += len(chunk)
        return b"".join(chunks)


def output(
    argv: Sequence[str],
    timeout_s: float,
    environment: Mapping[str, str] = MappingProxyType({}),
    act: str = "",
    directory: Path | None = None,
) -> str:
    """Return what a command prints. Raises LabError if it cannot be started, fails or takes longer.

    ``act`` says what to do if it ends with an error. ``directory`` is its working directory.
    """
    name = quoted(" ".join(argv))
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env={**os.environ, **environment, "LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{name} did not end within {timeout_s:g} s") from None
    except OSError as error:
        raise LabError(f"{argv[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        reason = last_line(done.stderr) or "no message"
        raise LabError(f"{name} failed with exit code {done.returncode}: {reason}", act)
    return done.stdout
