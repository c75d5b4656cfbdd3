"""Completes names of the lab in a shell: nodes, boards, NICs and combinations. Errors complete nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.configured import configured
from pytest_pinet.errors import PinetError

if TYPE_CHECKING:
    from pytest_pinet.config.schema import LabOfFile

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


def _boards(lab: LabOfFile) -> list[str]:
    return [node.board.name for node in lab.nodes.values()]


def _nics(lab: LabOfFile) -> list[str]:
    from pytest_pinet.model.lab import names_of

    return [name for interface in lab.interfaces() for name in names_of(interface)]


def _topologies(_: LabOfFile) -> list[str]:
    from pytest_pinet.model.topology import KINDS

    return ["all", *KINDS]


def _combinations(lab: LabOfFile) -> list[str]:
    from pytest_pinet.matrix.inventory import PAIR, entries, largest

    found = entries(lab, list(dict.fromkeys([PAIR, *largest(lab)])))
    return [entry.id for entry in found if entry.combination is not None]


def _targets(lab: LabOfFile) -> list[str]:
    interfaces = [str(interface) for interface in lab.interfaces()]
    return [*lab.nodes, *interfaces, *lab.switches, *(str(i.port) for i in lab.interfaces()), "pdu"]


nodes = _of_lab(lambda lab: lab.nodes)
boards = _of_lab(_boards)
nics = _of_lab(_nics)
topologies = _of_lab(_topologies)
combinations = _of_lab(_combinations)
targets = _of_lab(_targets)


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
