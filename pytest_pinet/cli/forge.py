"""Commands for the workflows that gate each pull request of a kernel tree: ``pinet boards-for`` and ``comment``."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import PinetCommand, say
from pytest_pinet.cli.options import OUTPUT_OPTION, lab_files, print_lines, write_output
from pytest_pinet.errors import ConfigError

if TYPE_CHECKING:
    from pytest_pinet.model.record.result import RunRecord

# The results of a gate on one board have less than 1 MiB.
_MOST_BYTES = 8 << 20
_RESULTS = "results.json"
_MOST_COMMANDS = 8


@click.command(cls=PinetCommand)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--lab", "lab_file", metavar="FILE", default="exact", show_default=True, shell_complete=lab_files,
    help="The lab file, or the name of a packaged lab, with exact boards.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print a list in one line, for the matrix of a CI system.")
def boards_for(files: tuple[str, ...], lab_file: str, as_json: bool) -> None:
    """Name the exact boards that execute a FILE of a kernel tree: what to gate a pull request on.

    FILE is a path from the top of the tree. '-' reads paths from the standard input, one in a line, as
    'git diff --name-only' prints them.

    \b
    FILE of a driver, its PHY or its bus:  the boards that load it
    FILE that drivers share, or unknown:   genet, macb, r8152
    FILE that no board executes:           none

    drivers/net/usb/usbnet.c is of ax88179, ax88772, smsc95xx and cdc; net/core/dev.c is shared; Documentation/, the
    code of other processors and the drivers of other NICs are executed by none.

    If no board is left, nothing is printed (with --json: []), and the exit code is 0: there is nothing to gate.
    """
    from pytest_pinet.exact.changed_files import boards_for as found
    from pytest_pinet.exact.measure import exact_boards
    from pytest_pinet.report.text_wrap import count

    paths: list[str] = []
    for file in files:
        given = re.split("[\0\n]", sys.stdin.buffer.read().decode("utf-8", "replace")) if file == "-" else [file]
        # git quotes unusual names: "drivers/\303\244.c". None of them is a file of a driver that a board loads.
        paths += filter(None, (line.strip('"') for line in given))
    boards = found(paths, exact_boards(lab_file))
    if not boards:
        say(f"nothing to gate: {count(len(paths), 'file')}, and no exact board executes one")
    print_lines([json.dumps(boards)] if as_json else boards)


@click.command(cls=PinetCommand)
@click.argument("answers", metavar="[FOLDER]...", nargs=-1)
@click.option("--commit", metavar="SHA", default="", help="The commit that was gated.")
@click.option("--link", metavar="URL", default="", help="The address of the job.")
@OUTPUT_OPTION
def comment(answers: tuple[str, ...], commit: str, link: str, output: str | None) -> None:
    """Write the comment on a pull request from the answers of its jobs, as Markdown.

    FOLDER is the artifact of one job, with the name of its board and with its results.json. Nothing else is read, and
    nothing in this file is trusted, because the code of the pull request ran in that job. Each text is escaped, so that
    it becomes no markup, link, mention or command. A FOLDER without a readable results.json has no answer.
    """
    from pytest_pinet.report.comment import comment_markdown

    found = {Path(one).name: _answer(Path(one)) for one in answers}
    runs = [run for run in found.values() if not isinstance(run, str)]
    commands = dict.fromkeys(line for run in runs[:_MOST_COMMANDS] for line in _commands(run))
    write_output([comment_markdown(found, list(commands), commit, link)], output)


def _commands(run: RunRecord) -> Iterator[str]:
    """Yield the commands that repeat the gate of two commits on an exact board, and that boot the board by itself."""
    from pytest_pinet.exact.board import shell_line
    from pytest_pinet.report.comment import COMMIT, LONGEST

    for result in run.results[:1]:
        if (exact := result.exact) is None or run.change is None:
            continue
        commits = [build.known_source.commit for build in (run.change.a, run.change.b)]
        if all(map(COMMIT.fullmatch, commits)):
            words = ["--tree", ".", "--good", commits[0], "--bad", commits[1], "--exact", "--nic", exact.nic]
            yield shlex.join(["pinet", "gate", *words])
        cmdline = (result.build.get("cmdline") or "")[:LONGEST]
        if line := shell_line(exact.machine, exact.device, exact.processors, cmdline):
            yield f"# The machine of {exact.nic}, QEMU {exact.qemu}; pinet makes the initramfs, and models of NICs:"
            yield line


def _answer(folder: Path) -> RunRecord | str:
    """Return the run of an artifact, or the reason why there is none."""
    from pytest_pinet.cli.run_selection import read_results

    path = folder / _RESULTS
    if path.is_symlink() or not path.is_file():
        return f"it has no {_RESULTS}; perhaps the kernel does not build"
    if path.stat().st_size > _MOST_BYTES:
        return f"its {_RESULTS} has more than {_MOST_BYTES >> 20} MiB"
    try:
        return read_results(path)
    except ConfigError as error:
        return error.message
