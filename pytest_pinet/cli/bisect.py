"""``pinet bisect``: which commit of a kernel tree made the network slower?"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import echo, with_sections
from pytest_pinet.cli.config import FILES
from pytest_pinet.cli.gate import UNDECIDED
from pytest_pinet.cli.options import complete_nics, lab_files
from pytest_pinet.cli.tree import HEADING, NAMES, kernel_config, tree_options
from pytest_pinet.errors import BuildError, ConfigError, InvalidMeasurement, first_line

if TYPE_CHECKING:
    from pytest_pinet.judge.bisection import Bisection
    from pytest_pinet.tree.builder import KernelConfig, TreeBuilder
    from pytest_pinet.tree.gates import Gates, Measured
    from pytest_pinet.tree.search import Search, Step
    from pytest_pinet.tree.sources import Commit, Tree


@click.command(
    cls=with_sections({HEADING: NAMES, "What to measure": ["--exact", "--nic", "--lab"]}),
    context_settings={"ignore_unknown_options": True},
)
@tree_options
@click.option("--exact", is_flag=True, help="Decide on exact boards, in QEMU: one boot for each commit, no hardware.")
@click.option(
    "--nic", "nics", metavar="GLOB", multiple=True, shell_complete=complete_nics,
    help="Measure only with a NIC that matches (repeatable).",
)  # fmt: skip
@click.option(
    "--lab", metavar="FILE", shell_complete=lab_files,
    help="The lab file. With --exact, this lab only confirms the answer; --config is then for its boards.",
)  # fmt: skip
@click.argument("gate_args", nargs=-1, type=FILES)
def bisect(
    tree: str | None,
    good: str | None,
    bad: str | None,
    config: str | None,
    exact: bool,
    nics: tuple[str, ...],
    lab: str | None,
    gate_args: tuple[str, ...],
) -> None:
    """Find the commit between a good and a bad one that made the network slower.

    Measures builds of commits until one is the culprit with a probability of 95 %, and gates it against its parent.
    Commits that do not build or boot are skipped. If it is stopped, even by kill -9, the same command goes on where it
    stopped. All further arguments are those of pinet gate: test paths, -k, --board and so on.

    \b
    pinet bisect --tree ~/linux --good v6.12.40 --bad v6.12.41 --exact --nic r8152
    pinet bisect --tree ~/linux --good v6.12 --config bcm2711_defconfig --lab bench.yaml --nic genet

    Exit code: 0 if the commit is found; 3 if there is no decision; 2 if the lab failed; 4 for wrong arguments.
    """
    from pytest_pinet.tree.sources import Tree

    context = click.get_current_context()
    if tree is None or good is None:
        raise click.UsageError("name a git repository and a good commit: --tree DIR --good REF", context)
    if not exact and lab is None:
        raise click.UsageError("name what measures: --exact, or the boards of a lab with --lab FILE", context)
    source = Tree(Path(tree).expanduser())
    chosen = _Bisected(source, source.resolve(good), source.resolve(bad or "HEAD"), exact, nics, gate_args)
    given = {"pinet_exact": exact, "pinet_nic": nics, "pinet_lab": None if exact else lab}
    own = kernel_config(None if exact and lab else config, given)
    # Before hours of boots: a mistake here would end the last step.
    of_lab = kernel_config(config, given | {"pinet_exact": False}) if exact and lab else None
    found, culprit, search = chosen.search(own, [] if exact else [f"--lab={lab}"])
    if found is None or not found.differs:
        echo(f"The ends do not differ: {chosen.sentence or 'their boots differ by no more than their noise'}")
        sys.exit(UNDECIDED)
    confirmed = None
    if culprit is not None:
        confirmed = chosen.confirm(culprit, of_lab or own, exact and lab is None, [f"--lab={lab}"] if lab else [])
    for line in _answer(found, culprit, search, confirmed):
        echo(line)
    sys.exit(0 if confirmed is not None and confirmed.verdict == "fail" else UNDECIDED)
