"""The ``pinet`` command. The file of a subcommand is imported when the subcommand is used."""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
import select
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import click

from pytest_pinet.cli.command import (
    HELP_NAMES,
    INTERRUPTED,
    PINET,
    ErrorCodes,
    PinetGroup,
    colour,
    error_codes,
    usage_error_lines,
)
from pytest_pinet.errors import ConfigError, OutputError, PinetError
from pytest_pinet.execution.files import reason
from pytest_pinet.execution.text import for_log
from pytest_pinet.version import __version__

# The texts in ``pinet --help``, which needs no import, by heading.
SECTIONS: dict[str, dict[str, str]] = {
    "Judge a change": {
        "gate": "Measure a new build against the known-good one: merge it or not?",
        "merge": "Join the parts of a gate that ran as several jobs, to one verdict.",
        "watch": "Count rare events of boards: stalls, link drops, reboots.",
        "compare": "Compare two runs or builds, or one run with published values.",
    },
    "Look at results": {
        "summary": "Show one run, the last by default: its verdict and its results.",
        "history": "Show all runs: how each result changed, and with which build.",
        "losses": "Show what became slower and stayed slower: since when, and why.",
        "report": "Write a web page with all results and their trends.",
        "accept": "Make measured values the baselines of later runs.",
        "export": "Write a run in the format of another program, such as KTAP.",
        "comment": "Write the comment on a pull request from its answers.",
    },
    "Set up and check a lab": {
        "init": "Look at boards over ssh; write a lab file for them.",
        "check": "Read a lab file; report its mistakes. Uses no board.",
        "doctor": "Try all parts of a lab; report faults and who must fix them.",
        "discover": "Ask the switches which NIC is on which port; correct the file.",
        "matrix": "List what a lab can measure, and why not the rest.",
        "graph": "Draw a lab, or the part that one measurement uses.",
        "calibrate": "Measure how much results vary; write the tolerances.",
        "selftest": "Slow a link by known amounts; count how often a gate is right.",
    },
    "Measure without hardware": {
        "demo": "Show a gate: pass, fail, pass. Undo it with --remove.",
        "lab": "Start, stop and show a virtual lab, and inject faults.",
        "emulated": "Create the SD card image of emulated boards; fetch kernels.",
        "boards-for": "Name the exact boards for the changed files of a kernel.",
    },
    "Settings": {
        "config": "Show each setting of a run, and where its value was written.",
        "completion": "Print the script for completion in bash, zsh or fish.",
    },
}
COMMANDS: dict[str, str] = {name: text for commands in SECTIONS.values() for name, text in commands.items()}
# The files of the subcommands. A subcommand that is not listed has a file of its name.
_FILES = {
    **dict.fromkeys(("summary", "compare", "merge", "export"), "runs"),
    **dict.fromkeys(("accept", "losses"), "reviewed"),
    **dict.fromkeys(("check", "doctor", "discover", "matrix", "graph"), "lab_checks"),
    **dict.fromkeys(("calibrate", "selftest"), "noise"),
    **dict.fromkeys(("boards-for", "comment"), "forge"),
    "emulated": "lab",
    "completion": "options",
}


class LazyGroup(PinetGroup):
    """A group that imports a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"pytest_pinet.cli.{_FILES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": HELP_NAMES})
@click.version_option(__version__, prog_name="pinet")
def pinet() -> None:
    """Measure the network throughput of boards, and decide whether a new kernel, driver or setting may be merged.

    Begin with 'pinet demo', which needs no board, or with 'pinet init pi@ADDRESS' for a board that you reach by ssh.

    Exit codes, unless the help of a command says otherwise: 4 for wrong arguments, options and lab files; 2 for a
    problem of the lab; 130 if it was interrupted; 74 if its output cannot be written, such as to a full disk; 70 for
    an error of pytest-pinet itself.
    """
    _check_current_folder()


# A shell that completes a command line sets this variable.
COMPLETE = "_PINET_COMPLETE"


def main() -> None:
    """Run the command. An error is printed as a message."""
    _open_closed_streams()
    sys.exit(run(sys.argv[1:]))


def _check_current_folder() -> None:
    try:
        Path.cwd()
    except OSError as error:
        raise ConfigError(f"the current folder cannot be used: {error.strerror}; change to another folder") from None


def _open_closed_streams() -> None:
    """Open the standard streams that the caller closed (``>&-``), for which Python has None and click prints nothing.

    Reading them finds their end, and writing to standard output is an error. Without this, the next file that is
    opened, such as a history, would get the number of standard output.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # Each gets the lowest free number, which is its own.
            if name == "stderr":
                # The exit code must say enough.
                number = os.open(os.devnull, os.O_WRONLY)
            else:
                number, writer = os.pipe()
                os.close(writer)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8"))


def run(words: list[str]) -> int:
    """Run the command line and return its exit code."""
    codes = error_codes(words)
    streams = sys.stdout, sys.stderr
    if COMPLETE in os.environ:
        from pytest_pinet.cli.options import register

        register()
    try:
        try:
            if COMPLETE in os.environ:
                _check_current_folder()
            done = pinet.main(words, prog_name="pinet", standalone_mode=False, color=colour())
        finally:
            # pytest leaves text in the buffer. At the end of Python, a full disk would be a traceback.
            # Python has no stdout if its file is closed.
            if sys.stdout is not None:
                sys.stdout.flush()
    except click.ClickException as error:
        _print(usage_error_lines(error))
        return codes.mistake
    except click.Abort as error:
        _print(["pinet: stopped"])
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else codes.declined
    except PinetError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return codes.output
        _print([f"{PINET} {error}"])
        if isinstance(error, OutputError):
            return codes.output
        return codes.mistake if isinstance(error, ConfigError) else codes.other
    except SystemExit:
        if sys.stdout is streams[0]:
            raise
        # For a closed pipe, click wraps both streams and exits with 1, which means a regression.
        sys.stdout, sys.stderr = streams
        return _end(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)), codes)
    except Exception as error:
        return _end(error, codes)
    # The exit code of ``Context.exit``. Commands return nothing.
    return done if isinstance(done, int) else 0


def _end(error: Exception, codes: ErrorCodes) -> int:
    """Print why a command could not go on, and return its exit code: no output possible, or an internal error."""
    if _cannot_write(error):
        # At its end, Python would write once more what is left in the buffer.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        assert isinstance(error, OSError)
        # The reader of a pipe, such as head, has all that it needs.
        if error.errno != errno.EPIPE:
            _print([f"{PINET} cannot write {error.filename or 'the output'}: {reason(error)}"])
        return codes.output
    _print(["".join(traceback.format_exception(error)).rstrip()])
    _print([f"{PINET} internal error, please report it with the lines above: {type(error).__name__}: {error}"])
    return codes.internal


def _cannot_write(error: Exception) -> bool:
    """Return whether an error means that standard output or a full disk takes no more."""
    if not isinstance(error, OSError):
        return False
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return True
    return error.errno in (errno.EPIPE, errno.EIO, errno.EBADF) and _is_closed()


def _is_closed() -> bool:
    """Return whether standard output is only for reading, or a pipe or terminal at which no program is left."""
    poll = select.poll()
    poll.register(1, 0)
    return fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY or bool(poll.poll(0))


def _print(lines: list[str]) -> None:
    # If stderr cannot be written, the exit code must say enough.
    with suppress(OSError):
        for line in lines:
            click.echo(for_log(line), err=True, color=colour())
