"""``pinet config``: shows each setting of a run, and where its value was written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import click

from pytest_pinet.cli.command import with_sections
from pytest_pinet.cli.exit_codes import MISTAKE
from pytest_pinet.cli.options import QUIET, print_result
from pytest_pinet.cli.pytest_arguments import FILES, SECTIONS, pytest_words, settings_options, spelled
from pytest_pinet.session.option_table import SETTINGS

if TYPE_CHECKING:
    import pytest

    from pytest_pinet.session.settings import Settings


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
    from pytest_pinet.config.file_text import read_text
    from pytest_pinet.config.lab_path import lab_path
    from pytest_pinet.config.labfile import WHAT, load
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
