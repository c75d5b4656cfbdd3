"""Options that subcommands share: their values in the environment and in pytest's file, completion, and output."""

from __future__ import annotations

import difflib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class, split_arg_string

from pytest_pinet.cli import COMPLETE
from pytest_pinet.cli.command import PinetCommand, echo, painted, painted_change, say
from pytest_pinet.errors import ConfigError, PinetError, Where
from pytest_pinet.execution.files import exists, write_file, writing
from pytest_pinet.execution.names import shown
from pytest_pinet.execution.text import cleaned, for_log
from pytest_pinet.session.option_table import SETTINGS

if TYPE_CHECKING:
    from click.decorators import FC

    from pytest_pinet.config.schema import LabOfFile


# In the order of pytest. These files are pytest's own, so they count even without a section.
_OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")


def configured(name: str) -> str | None:
    """Return the value of a setting such as ``lab``; None if it has none. Raises ConfigError for a broken file."""
    (one,) = (one for one in SETTINGS if one.name == name)
    if variable := os.environ.get(one.variable):
        return variable
    for path in _files(Path.cwd()):
        keys = _keys(path)
        if keys is not None:
            value = keys.get(one.key)
            if not value:
                return None
            if not isinstance(value, str):
                raise ConfigError(f"{one.key}: expected a text, got {shown(value)}", Where(str(path)))
            return one.from_folder(value, path.parent) if one.from_folder is not None else value
    return None


def _files(folder: Path) -> Iterator[Path]:
    for base in (folder, *folder.parents):
        yield from (path for file in (*_OWN, *_SHARED) if (path := base / file).is_file())


def _keys(path: Path) -> dict[str, object] | None:
    """Return the keys of pytest in a file, or None if the file is not pytest's."""
    try:
        text = path.read_text(encoding="utf-8")
        found = _toml(text, path.name) if path.suffix == ".toml" else _ini(text, path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"this is no configuration of pytest: {error}", Where(str(path))) from None
    return {} if found is None and path.name in _OWN else found


def _toml(text: str, name: str) -> dict[str, object] | None:
    import tomllib

    data = tomllib.loads(text)
    if name in _OWN:
        return _table(data, "pytest")
    tool = _table(data, "tool") or {}
    own = _table(tool, "pytest")
    return _table(own, "ini_options") or own if own is not None else None


def _table(data: dict[str, object], key: str) -> dict[str, object] | None:
    found = data.get(key)
    return found if isinstance(found, dict) else None


def _ini(text: str, path: Path) -> dict[str, object] | None:
    import iniconfig

    section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    try:
        found = iniconfig.IniConfig(str(path), data=text)
    except iniconfig.ParseError as error:
        raise ValueError(error) from None
    return dict(found[section].items()) if section in found else None


DEFAULT_LAB = "virtual"

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def lab_of_user() -> str:
    """Return the lab of a command without ``--lab``. Raises ConfigError."""
    return configured("lab") or DEFAULT_LAB


def _of_lab(names: Callable[[LabOfFile], Iterable[str]]) -> Completer:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from pytest_pinet.config.labfile import load

        with suppress(PinetError, OSError):
            lab = ctx.params.get("lab_file") or ctx.params.get("pinet_lab") or lab_of_user()
            found = dict.fromkeys(names(load(lab, in_use=False)))
            return [name for name in found if name.startswith(incomplete)]
        return []

    return complete


def _nics(lab: LabOfFile) -> list[str]:
    from pytest_pinet.model.lab import names_of

    return [name for interface in lab.interfaces() for name in names_of(interface)]


def _topologies(_: LabOfFile) -> list[str]:
    from pytest_pinet.model.topology import KINDS

    return ["all", *KINDS]


def _combinations(lab: LabOfFile) -> list[str]:
    from pytest_pinet.matrix.expansion import PAIR, entries, largest

    found = entries(lab, list(dict.fromkeys([PAIR, *largest(lab)])))
    return [entry.id for entry in found if entry.combination is not None]


def _targets(lab: LabOfFile) -> list[str]:
    interfaces = [str(interface) for interface in lab.interfaces()]
    return [*lab.nodes, *interfaces, *lab.switches, *(str(i.port) for i in lab.interfaces()), "pdu"]


complete_nodes = _of_lab(lambda lab: lab.nodes)
complete_boards = _of_lab(lambda lab: (node.board.name for node in lab.nodes.values()))
complete_nics = _of_lab(_nics)
complete_topologies = _of_lab(_topologies)
complete_combinations = _of_lab(_combinations)
complete_targets = _of_lab(_targets)


def lab_files(_: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a packaged lab, or a YAML file or folder."""
    from pytest_pinet.config.lab_path import packaged_labs

    found = [name for name in packaged_labs() if name.startswith(incomplete)]
    with suppress(OSError, ValueError):
        folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
        for path in sorted(folder.iterdir()):
            shown = f"{path}/" if path.is_dir() else str(path)
            if shown.startswith(incomplete) and (path.is_dir() or path.suffix in (".yaml", ".yml")):
                found.append(shown)
    return found


DEFAULT_HISTORY = ".pinet/history.db"
# For calls of pytest. It cannot rewrite the assertions of modules that `pinet` has imported, and none of them needs it.
QUIET = "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning"
# The most runs that --last and --least can ask for: more than a history has. No database takes a number above 2**63.
MOST_RUNS = 1_000_000
# Without a terminal, such as in the log of a CI job, one line of progress in this time is enough.
_INTERVAL_S = 10.0

LAB_OPTION = click.option(
    "--lab", "lab_file", metavar="FILE", default=lab_of_user, show_default=f"{DEFAULT_LAB}",
    shell_complete=lab_files,
    help="The lab file, or the name of a packaged lab. Also PINET_LAB, and pinet_lab in pytest's configuration.",
)  # fmt: skip
HISTORY_OPTION = click.option(
    "--history", "history_url", metavar="URL", default=lambda: configured("history") or DEFAULT_HISTORY,
    show_default=DEFAULT_HISTORY,
    help="The history: an SQLite file or postgresql://user@host/name. Also PINET_HISTORY, and pinet_history in "
    "pytest's configuration.",
)  # fmt: skip
OUTPUT_OPTION = click.option("-o", "--output", metavar="FILE", help="Write to this file instead of the terminal.")


class FiniteRange(click.FloatRange):
    """A percentage in a range, such as 3 or 3%. ``click.FloatRange`` accepts nan, which is in no range."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        bare = value.strip().removesuffix("%") if isinstance(value, str) else value
        number: float = super().convert(bare, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def last_option(default: int, text: str, least: int = 1) -> Callable[[FC], FC]:
    """Return the option ``--last``: the number of runs to read from the history."""
    return click.option(
        "--last", metavar="N", type=click.IntRange(least, MOST_RUNS), default=default, show_default=True, help=text
    )


def has_history(url: str) -> bool:
    """Return whether a command can read this history: none is made before the first run, and it can be off."""
    from pytest_pinet.history.history import OFF

    return url.lower() not in OFF and (url != DEFAULT_HISTORY or exists(url))


def print_lines(lines: Iterable[str], paint: Callable[[str], str] = painted) -> None:
    """Print each line on stdout, with colours on a terminal."""
    for line in lines:
        echo(paint(line))


def print_change(name: str, before: str, after: str, around: int = 3) -> None:
    """Print what changed in a file as a unified diff, with so many lines around each change."""
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, n=around, lineterm="")
    print_lines(changed, painted_change)


def print_result(as_json: bool, records: Callable[[], object], lines: Callable[[], Iterable[str]]) -> None:
    """Print records as JSON or, without ``as_json``, lines of text."""
    print_lines([json.dumps(records(), indent=1)] if as_json else lines())


def write_output(texts: Iterable[str], output: str | None, clean: Callable[[str], str] = for_log) -> None:
    """Print texts, which ``clean`` cleans, or write them to a file, all or nothing. Raises ConfigError."""
    if output is None or output == "-":
        for text in texts:
            click.echo(clean(text), nl=False)
        return
    if not output:
        raise ConfigError("-o is empty; expected the name of a file")
    path = Path(output)
    with writing(output, "-o"):
        # A file may end in the log of a CI system, too: it is that log (/dev/stdout), or a job prints it.
        # Texts are written one by one, because a history can exceed the memory.
        # Only terminals have colours.
        plain = (clean(text).replace("\x1b", "\\x1b") for text in texts)
        write_file(path, (text.encode("utf-8", "backslashreplace") for text in plain))


class Steps:
    """Shows progress on stderr: one line that is overwritten on a terminal, else separate lines."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last_s = -_INTERVAL_S

    def __call__(self, text: str) -> None:
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\x1b[K{cleaned(text)[:width]}", err=True, nl=False)
        elif time.monotonic() - self._last_s >= _INTERVAL_S:
            self._last_s = time.monotonic()
            say(text)

    def say(self, text: str) -> None:
        self.end()
        say(text)

    def end(self) -> None:
        """Clear the progress line."""
        if self._terminal:
            click.echo("\r\x1b[K", err=True, nl=False)


SHELLS = ("bash", "zsh", "fish")

# bash splits words at the ":" of pi4b:onboard/pair and replaces only the last part, so that the text before it must be
# cut from each answer. The script of click does not.
_BASH = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" breaks="${COMP_WORDBREAKS//[^:=]/}" cut="" type value
    local word="${line##*[[:space:]]}"
    [[ -n $breaks ]] && cut="${word%%"${word##*[$breaks]}"}"
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) [[ $value == *[/=] ]] && compopt -o nospace
                   [[ -n $cut && $value == "$cut"* ]] && value="${value#"$cut"}"
                   COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="$line" %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class WholeWords(BashComplete):
    """Completion for bash that also works in words with ":" and "="."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])


def register() -> None:
    """Make click use our completion for bash."""
    add_completion_class(WholeWords, "bash")


@click.command(cls=PinetCommand)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, boards, NICs and combinations in SHELL.

    \b
    bash: eval "$(pinet completion bash)"            in ~/.bashrc
    zsh:  eval "$(pinet completion zsh)"             in ~/.zshrc, after compinit
    fish: pinet completion fish | source             in ~/.config/fish/config.fish

    Names come from the lab of --lab or, without the option, of PINET_LAB, of pinet_lab in pytest's configuration, or
    of the virtual lab.
    """
    register()
    found = get_completion_class(shell)
    assert found is not None, shell
    root = click.get_current_context().find_root()
    click.echo(found(root.command, {}, "pinet", COMPLETE).source())
