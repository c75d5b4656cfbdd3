"""Commands that run pytest: their options are the settings of a run, and further arguments are pytest's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

import click

from pytest_pinet.cli import lab_names
from pytest_pinet.cli.paint import echo
from pytest_pinet.execution.names import nearest_word, quoted
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
# Settings by heading, for help texts.
SECTIONS: Mapping[str, Sequence[str]] = {
    "What to measure": ["--lab", "--board", "--nic", "--topology", "--tuning", "--exact", "--kselftest"],
    "What passes": ["--tolerance", "--min", "--instructions", "--strict", "--require"],
    "How much to measure": ["--profile", "--boots", "--confirm", "--error-rate", "--shards", "--acquire-timeout"],
    "Where it is kept": ["--history", "--run-dir"],
}
# The shell completes names of files.
FILES = click.Path()
_P = ParamSpec("_P")
_R = TypeVar("_R")


def settings_options(*left_out: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that adds an option for each setting of a run, except the settings that are ``left_out``.

    Their values are keyword arguments of the function, such as ``pinet_nic``; ``pytest_words`` passes them to pytest.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        # click reads decorators from the last one to the first one.
        for one in reversed([one for one in SETTINGS if one.name not in left_out]):
            function = _option(one)(function)
        return function

    return decorate


def _checked(one: RunSetting) -> Callable[[click.Context, click.Parameter, object], object]:
    """Return a callback that ends the command for a wrong value, before the build is read."""

    def check(ctx: click.Context, param: click.Parameter, value: object) -> object:
        try:
            if isinstance(value, str):
                one.parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
        return value

    return check


def _option(one: RunSetting) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    text = one.full_help
    for other in SETTINGS:
        text = text.replace(other.option, "BUILD" if other.name == "build" else other.gate_option)
    return click.option(
        one.gate_option,
        one.key,
        # Without a value, click takes an explicit False for a switch whose value can be left out.
        is_flag=one.metavar is None or None,
        metavar=one.metavar,
        multiple=one.repeatable,
        help=f"{text[0].upper()}{text[1:]}.",
        type=FILES if one.from_folder is not None else None,
        callback=_checked(one),
        shell_complete=_VALUES.get(one.name),
    )


def pytest_words(given: Mapping[str, object]) -> list[str]:
    """Return the options of pytest for the values of ``settings_options``."""
    words = []
    for one in SETTINGS:
        value = given.get(one.key)
        if value is True:
            words.append(one.option)
        else:
            texts = value if isinstance(value, tuple) else () if value in (None, False) else (value,)
            words += [f"{one.option}={text}" for text in texts]
    return words


def spelled(pytest_args: Sequence[str]) -> dict[str, str]:
    """Return what messages call each option of pytest, except options that the user passed to pytest."""
    passed = {word.partition("=")[0] for word in pytest_args}
    return {one.option: one.gate_option for one in SETTINGS if one.option not in passed}


def option_names(command: click.Command) -> list[str]:
    """Return the names of all options of a command."""
    return ["--help", *(name for param in command.params if isinstance(param, click.Option) for name in param.opts)]


# Words of other tools for a setting of ours. No spelling leads from one to the other.
_OTHER_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("--interface", "--iface", "--device", "--driver", "--chip"), "--nic"),
    **dict.fromkeys(("--node", "--place", "--machine", "--model", "--dut"), "--board"),
    **dict.fromkeys(("--baseline", "--base", "--good", "--known-good", "--reference", "--compare"), "--against"),
    **dict.fromkeys(("--limit", "--minimum", "--threshold"), "--min"),
    **dict.fromkeys(("--config", "--env", "--environment", "--lg-env", "--bench"), "--lab"),
}


def near_option(word: str, accepted: Sequence[str]) -> str | None:
    """Return the option that was most likely meant, or None."""
    other = _OTHER_WORDS.get(word)
    return other if other in accepted else nearest_word(word, accepted)


def print_hints(unknown: Sequence[str], command: click.Command) -> None:
    """Print the nearest option of the command for each of the words that pytest does not know.

    For options that begin with ``--pinet``, pytest's message has the nearest name (``plugin``).
    """
    for word in unknown:
        name = word.partition("=")[0]
        ours = name.startswith("--") and not name.startswith("--pinet")
        if name in ("--build", "--pinet-build"):
            echo(f"pinet: {quoted(name)}: the build is the first argument: pinet {command.name} BUILD", err=True)
        elif ours and (near := near_option(name, option_names(command))):
            echo(f"pinet: {quoted(name)}: did you mean '{near}'?", err=True)
