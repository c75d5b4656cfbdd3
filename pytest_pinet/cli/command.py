"""Commands with our messages: one form for all errors of usage, exit codes, colours, did-you-mean, grouped help."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import click

from pytest_pinet.errors import mistake_in, sentence
from pytest_pinet.execution.files import exists
from pytest_pinet.execution.names import nearest, nearest_word, quoted, unknown
from pytest_pinet.execution.text import for_log
from pytest_pinet.model.verdict import SKIP

T = TypeVar("T")
# Every mistake of the user: arguments, options, the lab file.
MISTAKE = 4
LAB_ERROR = 2
INTERRUPTED = 130
# As in sysexits.h: an error of pytest-pinet itself, and output that cannot be written.
INTERNAL = 70
OUTPUT = 74
# `git bisect run` continues after exit codes below 128 except 125. It would take a user's mistake for a bad commit.
ABORT = 128


@dataclass(frozen=True)
class ErrorCodes:
    """The exit codes of a command that ends with an error.

    ``declined`` is for "no" to the question of a command.
    """

    mistake: int = MISTAKE
    other: int = LAB_ERROR
    declined: int = 1
    internal: int = INTERNAL
    output: int = OUTPUT


OF_BISECTION = ErrorCodes(
    mistake=ABORT + MISTAKE, other=SKIP, declined=INTERRUPTED, internal=SKIP, output=ABORT + OUTPUT
)


def error_codes(words: Sequence[str]) -> ErrorCodes:
    """Return the codes for a command line, also for one that click cannot read.

    A mistyped ``--bisect`` counts as well, because its commit must not be marked bad.
    """
    bisect = any(word.startswith("-") and word.lstrip("-").startswith("bis") for word in words)
    return OF_BISECTION if bisect else ErrorCodes()


HELP_NAMES = ["-h", "--help"]
OTHER_OPTIONS = "Options"
# What a message on stderr begins with.
PINET = click.style("pinet:", fg="red", bold=True)


class ColouredFormatter(click.HelpFormatter):
    """A formatter that emphasizes headings and the names of options and commands. click removes colours for files."""

    def write_heading(self, heading: str) -> None:
        super().write_heading(click.style(heading, bold=True))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(click.style(name, fg="cyan"), text) for name, text in rows], col_max, col_spacing)


class PinetContext(click.Context):
    """The context of all commands."""

    formatter_class = ColouredFormatter


class PinetCommand(click.Command):
    """A command whose help lists its options by heading in ``sections``, and all other options last."""

    context_class = PinetContext
    sections: Mapping[str, Sequence[str]] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            # click leaves the context out if an option lacks its value.
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, records in options_by_heading(self, ctx).items():
            with formatter.section(heading):
                formatter.write_dl(records)


def options_by_heading(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the names and the help of the options of a command, by heading."""
    rows: dict[str, tuple[str, str]] = {}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            rows[max(param.opts, key=len)] = record
    headings = command.sections if isinstance(command, PinetCommand) else {}
    found = {heading: [rows.pop(name) for name in names] for heading, names in headings.items()}
    return found | {OTHER_OPTIONS: [*rows.values()]}


def with_sections(by_heading: Mapping[str, Sequence[str]]) -> type[PinetCommand]:
    """Return the class of a command whose help has these headings, each with the names of its options."""

    class PinetCommandWithSections(PinetCommand):
        sections = by_heading

    return PinetCommandWithSections


# Words of other tools for a command of ours.
_OTHER_WORDS = {
    **dict.fromkeys(("run", "test", "measure", "verify", "judge"), "gate"),
    **dict.fromkeys(("show", "result", "results"), "summary"),
}


class PinetGroup(click.Group):
    """A group that suggests the nearest subcommand."""

    context_class = PinetContext
    command_class = PinetCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            # Versions of click differ in the exit code and the stream.
            click.echo(ctx.get_help(), err=True)
            ctx.exit(MISTAKE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            own = self.list_commands(ctx)
            known = self._below(ctx, own) | {one: one for one in own}
            other = _OTHER_WORDS.get(name)
            is_other = other in own
            near = other if is_other else nearest_word(name, known)
            if near is not None and (is_other or near not in own):
                raise click.UsageError(f"unknown command {quoted(name)}, did you mean '{known[near]}'?", ctx)
            raise click.UsageError(unknown("command", name, own), ctx)
        return super().resolve_command(ctx, args)

    def _below(self, ctx: click.Context, own: Iterable[str]) -> dict[str, str]:
        """Return the commands of the groups in this group, such as ``losses who``, by their last word."""
        groups = {one: group for one in own if isinstance(group := self.get_command(ctx, one), click.Group)}
        return {name: f"{one} {name}" for one, group in groups.items() for name in group.list_commands(ctx)}


class DefaultGroup(PinetGroup):
    """A group whose first command is the default: ``pinet history 'pi4b:*'`` is ``pinet history show 'pi4b:*'``.

    A first word such as ``exprot``, which is similar to a command, is a mistyped command, unless it can be an argument
    of the default command.
    """

    @property
    def default(self) -> click.Command:
        return next(iter(self.commands.values()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or not (args[0] in HELP_NAMES or self._is_command(args[0])):
            args = [str(self.default.name), *args]
        return super().parse_args(ctx, args)

    def _is_command(self, word: str) -> bool:
        # Ids of results and paths have these characters, and the id of a run has digits.
        is_argument = any(mark in word for mark in "-:*?[./~") or any(c.isdigit() for c in word) or exists(word)
        return word in self.commands or (not is_argument and nearest(word, self.commands) is not None)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return self.default.collect_usage_pieces(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.default.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def usage_error_lines(error: click.ClickException) -> list[str]:
    """Return the lines to print for a usage error: what is wrong, and the usage of the command."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = " ".join(error.format_message().split())
    if isinstance(error, click.NoSuchOption) and context is not None:
        there = [name for param in context.command.get_params(context) for name in (*param.opts, *param.secondary_opts)]
        message = unknown("option", error.option_name, [name for name in there if name.startswith("-")])
    lines = [f"{PINET} {sentence(message)}"]
    if context is not None:
        lines += [context.get_usage(), f"For help, run: {context.command_path} --help"]
    return lines


def colour() -> bool | None:
    """Return whether to use colours: None means on terminals only.

    NO_COLOR and FORCE_COLOR count as for pytest (https://no-color.org, https://force-color.org).
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return False if os.environ.get("TERM") == "dumb" else None


# The words at the end of a row, as the tables print them.
_RED = ("FAIL", "ERROR", "SLOWER", "REGRESSION", "FINDING", "LAB ERROR")
_YELLOW = ("INCONCLUSIVE", "INVALID", "UNDECIDED", "marginal")
_GREEN = ("pass", "improved", "faster", "same", "unchanged")
_COLOURS = {word: name for name, words in (("red", _RED), ("yellow", _YELLOW), ("green", _GREEN)) for word in words}
_LAST = re.compile(rf"(?<=\s\s)({'|'.join(_COLOURS)})$")
# The marks at the beginning of a line of `doctor`, `matrix` and `lab status`.
_MARKS = {"ok": "green", "BAD": "red", "?": "yellow", "!": "red"}
_FIRST = re.compile(rf"(\s*)({'|'.join(map(re.escape, _MARKS))})(?=\s)")


def echo(text: object, err: bool = False, nl: bool = True) -> None:
    """Print a text, cleaned of what a terminal or a CI system would act on."""
    click.echo(for_log(str(text)), err=err, nl=nl)


def say(text: object) -> None:
    """Print a line for the user that is no result: on standard error."""
    echo(text, err=True)


def parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    """Return the parsed value of an option. Raises ConfigError."""
    with mistake_in(option):
        return parse(text.strip())


def painted(line: str) -> str:
    """Return a line with its mark or its last word in the colour of what it means."""
    if match := _FIRST.match(line):
        blanks, mark = match.groups()
        return f"{blanks}{click.style(mark, fg=_MARKS[mark])}{line[match.end() :]}"
    return _LAST.sub(lambda match: click.style(match[1], fg=_COLOURS[match[1]]), line)


def painted_change(line: str) -> str:
    """Return a line of a unified diff in the usual colours."""
    colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return click.style(line, fg=colour) if colour is not None else line
