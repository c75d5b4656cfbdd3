"""The settings of a run as options of commands that run pytest, and ``pinet config``, which shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

import click

from pytest_pinet.cli.command import MISTAKE, say, with_sections
from pytest_pinet.cli.options import (
    QUIET,
    Completer,
    complete_boards,
    complete_nics,
    complete_topologies,
    lab_files,
    print_result,
)
from pytest_pinet.execution.names import nearest_word, quoted
from pytest_pinet.session.option_table import CONFIRMATIONS, SETTINGS, RunSetting

if TYPE_CHECKING:
    import pytest

    from pytest_pinet.session.settings import Settings


def _words(*words: str) -> Completer:
    return lambda _ctx, _param, incomplete: [word for word in words if word.startswith(incomplete)]


def _profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from pytest_pinet.judge.profile import PROFILES

    return _words(*PROFILES)(ctx, param, incomplete)


# Values of settings that are neither paths nor numbers.
_VALUES: Mapping[str, Completer] = {
    "lab": lab_files,
    "board": complete_boards,
    "nic": complete_nics,
    "topology": complete_topologies,
    "profile": _profiles,
    "confirm": _words(*CONFIRMATIONS),
}
# Settings by heading, for help texts.
SECTIONS: Mapping[str, Sequence[str]] = {
    "What to measure": ["--lab", "--board", "--nic", "--topology", "--tuning", "--exact", "--kselftest"],
    "What passes": [
        "--tolerance",
        "--cost-tolerance",
        "--layout-counts",
        "--min",
        "--instructions",
        "--strict",
        "--require",
    ],
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
            say(f"pinet: {quoted(name)}: the build is the first argument: pinet {command.name} BUILD")
        elif ours and (near := near_option(name, option_names(command))):
            say(f"pinet: {quoted(name)}: did you mean '{near}'?")


@click.command(
    cls=with_sections({"Builds": ["--build", "--against"], **SECTIONS, "How to run": ["--dry-run", "--yes"]}),
    context_settings={"ignore_unknown_options": True},
)
@click.option("--json", "as_json", is_flag=True, help="Print a list instead of the table.")
@click.argument("pytest_args", nargs=-1, type=FILES)
@settings_options("json")
def config(as_json: bool, pytest_args: tuple[str, ...], **given: object) -> None:
    """Show each setting of a run of pytest with these arguments: its value, and where the value was written.

    A setting NAME is an option (--NAME of pinet, --pinet-NAME of pytest), the environment variable PINET_NAME and the
    key pinet_NAME of pytest's configuration file (pytest.ini, pyproject.toml and so on), in this order. For some
    settings, the lab file comes next and then the default. Write several values in a variable with ';' between them,
    and in a file on lines of their own.
    """
    import pytest

    shown = SettingsPrinter(spelled(pytest_args))
    if int(pytest.main([QUIET, *pytest_words(given), *pytest_args], plugins=[shown])):
        # pytest has printed its message.
        click.get_current_context().exit(MISTAKE)
    print_result(as_json, lambda: [row._asdict() for row in shown.rows], lambda: _table(shown.rows))


class SettingRow(NamedTuple):
    """One setting. ``source`` is the kind of the place in which it was written, and ``origin`` is the place."""

    name: str
    value: str
    source: str
    origin: str


class SettingsPrinter:
    """A pytest plugin that reads the settings in place of a run. Messages call options as ``names`` says."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self.rows: list[SettingRow] = []

    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Read the settings. pytest does not run tests then, because it takes the first result of this hook."""
        from pytest_pinet.session.settings import SPELLED, settings

        setattr(config.option, SPELLED, self._names)
        self.rows = rows_of(settings(config))
        return 0


def rows_of(found: Settings) -> list[SettingRow]:
    """Return a row for each setting. Raises ConfigError for a bad lab file."""
    from pytest_pinet.session.settings import Source

    in_lab_file = _keys_of_lab_file(found["lab"]) if found["lab"] else {}
    rows = []
    for one in SETTINGS:
        written = found.written[one.name]
        value = _without_password("; ".join(written.texts)) or one.otherwise or "none"
        if written.source is not Source.DEFAULT:
            rows.append(SettingRow(one.name, value, written.source, written.name))
        elif one.lab_key in in_lab_file:
            rows.append(SettingRow(one.name, *in_lab_file[one.lab_key]))
        else:
            rows.append(SettingRow(one.name, value, Source.DEFAULT, ""))
    return rows


def _without_password(text: str) -> str:
    """Return a text in which the password of a URL is ``***``."""
    text = re.sub(r"(://[^/@:?\s]*:).*@", r"\1***@", text)
    return re.sub(r"([?&]password=)[^&\s]*", r"\1***", text)


def _keys_of_lab_file(lab: str) -> dict[str | None, tuple[str, str, str]]:
    """Return value, source and place of the keys of a lab file that are settings of a run."""
    from pytest_pinet.config.lab_path import lab_path
    from pytest_pinet.config.labfile import WHAT, load
    from pytest_pinet.config.section import read_text
    from pytest_pinet.config.yaml_lines import parse

    profile = load(lab, in_use=False).profile
    document = parse(read_text(lab_path(lab), WHAT), lab)
    section = document.data.get("pinet") if isinstance(document.data, dict) else None
    if not isinstance(section, dict) or "profile" not in section:
        return {}
    return {"profile": (profile, "lab file", f"{document.value(('pinet', 'profile'))}: profile")}


def _table(rows: Iterable[SettingRow]) -> list[str]:
    from pytest_pinet.report.text_wrap import text_table

    cells = [(row.name, row.value, row.origin or row.source) for row in rows]
    return text_table([("setting", "value", "from"), *cells], "<  <  <")
