"""All commands of ``pinet``."""

from __future__ import annotations

import click

from pytest_pinet.cli import pinet
from tools.site.commands import walk


def all_commands() -> dict[tuple[str, ...], click.Command]:
    """Return every command, groups as well, by the words that call it; ``pinet`` itself is the empty tuple."""
    return {tuple(path.split()[1:]): command for path, command in walk(pinet, "pinet")}
