"""The reference of the ``pinet`` command, from its click commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from pytest_pinet.cli.command import HELP_NAMES
from tools.site.markdown import code, plain, table


def commands() -> str:
    """Return a section for each command: usage, help with exit codes, options."""
    from pytest_pinet.cli import pinet

    return "\n".join(_section(command, path) for path, command in walk(pinet, "pinet"))


def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its path. A group comes before its subcommands."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, help_option_names=HELP_NAMES)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from walk(below, f"{path} {name}")


def _section(command: click.Command, path: str) -> str:
    context = click.Context(command, info_name=path, help_option_names=HELP_NAMES)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    text = [f"## {path}", "", "```text", usage, "```", "", _prose(command.help or ""), ""]
    text += [_prose(command.epilog), ""] if command.epilog else []
    rows = [row for one in command.get_params(context) if (row := _option(one, context)) is not None]
    return "\n".join([*text, table(["option", "meaning"], rows)])


def _prose(text: str) -> str:
    """Return a help text as Markdown. A paragraph after click's ``\\b`` keeps its lines."""
    shown = []
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in part.splitlines()]
        shown.append("\n".join(["```text", *lines[1:], "```"]) if lines[0] == "\b" else plain(" ".join(lines)))
    return "\n\n".join(shown)


def _option(one: click.Parameter, context: click.Context) -> list[str] | None:
    record = one.get_help_record(context)
    return None if record is None else [code(record[0]), plain(record[1])]
