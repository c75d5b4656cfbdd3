"""Commands with our messages: one form for all errors of usage, did-you-mean, grouped and coloured help."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import click

from pytest_pinet.cli.exit_codes import MISTAKE
from pytest_pinet.execution.names import unknown

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


def sections(by_heading: Mapping[str, Sequence[str]]) -> Callable[[click.Command], click.Command]:
    """Return a decorator that sets the sections of a command: the names of its options, by heading."""

    def decorate(command: click.Command) -> click.Command:
        assert isinstance(command, PinetCommand)
        command.sections = by_heading
        return command

    return decorate


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
            raise click.UsageError(unknown("command", name, self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)


def usage_error_lines(error: click.ClickException) -> list[str]:
    """Return the lines to print for a usage error: what is wrong, and the usage of the command."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = " ".join(error.format_message().split())
    if isinstance(error, click.NoSuchOption) and context is not None:
        there = [name for param in context.command.get_params(context) for name in (*param.opts, *param.secondary_opts)]
        message = unknown("option", error.option_name, [name for name in there if name.startswith("-")])
    lines = [f"{PINET} {message}"]
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
