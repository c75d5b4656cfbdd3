"""All commands of ``pinet``, and a call of one in this process."""

from __future__ import annotations

from collections.abc import Iterator

import click

from pytest_pinet.cli import pinet


def all_commands() -> dict[tuple[str, ...], click.Command]:
    """Return every command, groups as well, by the words that call it; ``pinet`` itself is the empty tuple."""
    return dict(_below((), pinet))


def _below(words: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _below((*words, name), found)
