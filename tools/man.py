"""Write the man pages of ``pinet`` to docs/man/ (``make man``): one page for each command, from its help.

click-man 0.6 does not see commands that are imported when they are used, and cuts the line NAME.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import click

from pytest_pinet.cli import SECTIONS, pinet
from pytest_pinet.cli.command import HELP_NAMES, options_by_heading
from pytest_pinet.version import __version__
from tools.site.commands import walk

FOLDER = Path(__file__).parents[1] / "docs" / "man"
# The date of the release, so that the pages change only with the help.
DATE = "2026-11-24"
ENVIRONMENT = {
    "PINET_LAB": "The lab, if --lab is not given: a lab file, or the name of a packaged lab.",
    "PINET_HISTORY": "The history, if --history is not given.",
    "NO_COLOR, FORCE_COLOR": "If not empty: never, or always, use colours.",
}
EXIT = "Exit code"


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    found = [(tuple(path.split()), command) for path, command in walk(pinet, "pinet")]
    return {f"{'-'.join(words)}.1": _page(words, command) for words, command in found}


def _page(words: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(words), help_option_names=HELP_NAMES)
    first, *paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    name = "-".join(words)
    lines = [f'.TH {name.upper()} 1 {DATE} "pytest-pinet {__version__}" "pytest-pinet"']
    lines += [".SH NAME", f"{_text(name)} \\- {_text(_sentence(first))}"]
    usage = " ".join(command.collect_usage_pieces(context))
    lines += [".SH SYNOPSIS", f".B {_text(context.info_name or '')}", _text(usage)]
    lines += [".SH DESCRIPTION", _text(" ".join(first.split()))]
    for paragraph in paragraphs:
        if not paragraph.startswith(EXIT):
            lines += _paragraph(paragraph)
    for heading, rows in options_by_heading(command, context).items():
        lines += [f".SH {heading.upper()}", *_rows(rows)]
    if isinstance(command, click.Group):
        names = {path.split()[-1]: below for path, below in walk(command, name) if path.count(" ") == 1}
        own = {"Commands": {one: _sentence(below.help or "") for one, below in names.items()}}
        by_heading = SECTIONS if command is pinet else own
        for heading, commands in by_heading.items():
            rows = [(f"{name}-{one}(1)", text) for one, text in commands.items() if one in names]
            lines += [f".SH {heading.upper()}", *_rows(rows)]
    codes = [*_exit_codes(command), *([] if command is pinet else _exit_codes(pinet)[:1])]
    lines.append(".SH EXIT STATUS")
    for number, paragraph in enumerate(codes):
        lines += [".PP"] if number else []
        lines.append(_text(" ".join(paragraph.split())))
    lines += [".SH ENVIRONMENT", *_rows(list(ENVIRONMENT.items()))]
    above = ["pinet"] if len(words) > 1 else ["pytest"]
    above += ["-".join(words[:-1])] if len(words) > 2 else []
    lines += [".SH SEE ALSO", ", ".join(f"{_text(one)}(1)" for one in above)]
    return "".join(f"{line}\n" for line in lines)


def _exit_codes(command: click.Command) -> list[str]:
    """Return the paragraphs on exit codes. The first one of ``pinet`` is about every command."""
    return [part for part in inspect.cleandoc(command.help or "").split("\n\n") if part.startswith(EXIT)]


def _sentence(text: str) -> str:
    """Return the first sentence on one line without its full stop."""
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].removesuffix(".")


def _paragraph(paragraph: str) -> list[str]:
    if paragraph.startswith("\b"):
        # click keeps these lines as they are.
        return [".PP", ".nf", *(_text(line) for line in paragraph.splitlines()[1:]), ".fi"]
    return [".PP", _text(" ".join(paragraph.split()))]


def _rows(rows: list[tuple[str, str]]) -> list[str]:
    lines = []
    for name, text in rows:
        lines += [".TP", f".B {_text(name)}", _text(" ".join(text.split()))]
    return lines


def _text(text: str) -> str:
    """Escape a line for troff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def main() -> None:
    """Write all pages, and remove the pages of commands that are gone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = pages()
    for path in FOLDER.glob("*.1"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(found)} man pages in {FOLDER}\n")


if __name__ == "__main__":
    main()
