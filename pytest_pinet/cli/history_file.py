"""The option that names the history, and the functions that open it and write output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore

DEFAULT_HISTORY = ".pinet/history.db"

HISTORY_OPTION = click.option(
    "--history", "history_url", metavar="URL", default=DEFAULT_HISTORY, envvar="PINET_HISTORY", show_default=True,
    show_envvar=True, help="The history: an SQLite file or postgresql://user@host/name.",
)  # fmt: skip


def open_store(url: str, create: bool = False) -> HistoryStore:
    """Open the store of an option. Raises ConfigError."""
    from pytest_pinet.history.store import HistoryStore as Store

    return Store.open(url, create)


def write_text(text: str, output: str | None) -> None:
    """Print a text, or write it to a file. Raises ConfigError."""
    from pytest_pinet.errors import ConfigError
    from pytest_pinet.report.json_file import replace_file

    if output is None or output == "-":
        click.echo(text, nl=False)
        return
    path = Path(output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}; choose another with -o") from None
