"""Commands that pass further arguments to pytest: they complete the options of the plugin as their own."""

from __future__ import annotations

from collections.abc import Mapping

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.session.option_table import CONFIRMATIONS, SETTINGS, RunSetting


def _words(*words: str) -> lab_names.Completer:
    return lambda _ctx, _param, incomplete: [word for word in words if word.startswith(incomplete)]


def _profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from pytest_pinet.judge.profile import PROFILES

    return _words(*PROFILES)(ctx, param, incomplete)


# Values of settings that are neither paths nor numbers.
_VALUES: Mapping[str, lab_names.Completer] = {
    "lab": lab_names.lab_files,
    "board": lab_names.boards,
    "nic": lab_names.nics,
    "topology": lab_names.topologies,
    "profile": _profiles,
    "confirm": _words(*CONFIRMATIONS),
}


# The shell completes names of files.
FILES = click.Path()


class PassesToPytest(PinetCommand):
    """A command that passes unknown options to pytest."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; while a shell completes, with the options of the plugin."""
        own = super().get_params(ctx)
        return [*own, *map(_option, SETTINGS)] if ctx.resilient_parsing else own


def _option(one: RunSetting) -> click.Option:
    return click.Option(
        [one.option],
        is_flag=one.metavar is None,
        multiple=one.repeatable,
        help=one.help,
        type=FILES if one.from_folder is not None else None,
        shell_complete=_VALUES.get(one.name),
    )
