"""``pinet bisect``: which commit of a kernel tree made the network slower?"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from pytest_pinet.cli.command import echo, say, with_sections
from pytest_pinet.cli.config import FILES
from pytest_pinet.cli.gate import UNDECIDED
from pytest_pinet.cli.options import complete_nics, lab_files
from pytest_pinet.cli.tree import HEADING, NAMES, kernel_config, tree_options
from pytest_pinet.errors import BuildError, ConfigError, InvalidMeasurement, LabError, first_line
from pytest_pinet.model.verdict import Verdict

if TYPE_CHECKING:
    from pytest_pinet.tree.builder import TreeBuilder
    from pytest_pinet.tree.search import Search, SearchStep
    from pytest_pinet.tree.sources import Commit

_P = ParamSpec("_P")
# An answer that is not decided names at most this many commits.
_MOST_SHOWN = 10
# A gate of the culprit against its parent with this verdict says that it is none.
_DENIED = (Verdict.PASS, Verdict.IMPROVED)


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
    stopped. All further arguments go to pinet gate: test paths, -k, --board, limits such as --instructions and so on.

    \b
    pinet bisect --tree ~/linux --good v6.12.40 --bad v6.12.41 --exact --nic r8152
    pinet bisect --tree ~/linux --good v6.12 --config bcm2711_defconfig --lab bench.yaml --nic genet

    Exit code: 0 if the commit is found; 3 if there is no decision; 2 if the lab failed; 4 for wrong arguments.
    """
    context = click.get_current_context()
    if tree is None or good is None:
        raise click.UsageError("name a git repository and a good commit: --tree DIR --good REF", context)
    if not exact and lab is None:
        raise click.UsageError("name what measures: --exact, or the boards of a lab with --lab FILE", context)
    from pytest_pinet.tree.builder import TreeBuilder
    from pytest_pinet.tree.sources import Tree

    source = Tree(Path(tree).expanduser())
    ends = source.resolve(good), source.resolve(bad or "HEAD")
    commits = source.candidates(*ends)
    given = {"pinet_exact": exact, "pinet_nic": nics, "pinet_lab": None if exact else lab}
    with_both = exact and lab is not None
    own = kernel_config(None if with_both else config, given)
    # A mistake in it must not end the last step, after hours of boots.
    of_lab = kernel_config(config, given | {"pinet_exact": False}) if with_both else None
    words = [*(f"--nic={one}" for one in nics), *(() if with_both else gate_args)]
    with TreeBuilder(source, own, say) as builder:
        measuring = _Measuring(builder, ends, commits, exact, words if exact else [f"--lab={lab}", *words])
        search = measuring.search(own.key, has_lab=with_both)
        found = search.run()
    if found is None or not found.differs:
        why = measuring.sentence or "the boots of both commits differ by no more than their noise"
        less = "--instructions=NAME=0 for a function, --instructions=20 for all" if exact else "--pinet-tolerance=0.5%"
        echo(f"Nothing to bisect: the bad commit is within the limits of the gate, {why}. For less growth, add {less}")
        sys.exit(UNDECIDED)
    names, share = found.best()
    by_id = {one.id: one for one in commits}
    steps, gate = search.steps, search.gate_of(names[0])
    if of_lab is not None and found.is_certain and len(names) == 1:
        words = [f"--lab={lab}", *_nics_of_driver(str(lab), steps[0].driver), *gate_args]
        with TreeBuilder(source, of_lab, say) as builder:
            confirm = _Measuring(builder, ends, commits, False, words).confirm
            steps = [*steps, gate := confirm(by_id[names[0]], steps[0])]
    chosen = [by_id[one] for one in (names if found.is_certain else found.likely())]
    gate = gate if found.is_certain and len(names) == 1 else None
    for line in chain(_answer(chosen, share, gate, steps[0].why if with_both else ""), _costs(steps, by_id)):
        echo(line)
    sys.exit(0 if gate is not None and gate.verdict not in _DENIED else UNDECIDED)


def _timed(measure: Callable[_P, SearchStep]) -> Callable[_P, SearchStep]:
    """Let a function return its step with the seconds that it took."""

    @wraps(measure)
    def timed(*words: _P.args, **named: _P.kwargs) -> SearchStep:
        began = time.monotonic()
        return replace(measure(*words, **named), seconds=time.monotonic() - began)

    return timed


class _Measuring:
    """Builds and measures the commits of a tree."""

    def __init__(
        self, builder: TreeBuilder, ends: tuple[str, str], commits: Sequence[Commit], exact: bool, words: Sequence[str]
    ) -> None:
        from pytest_pinet.tree.gates import Gates

        self._builder, self._commits, self._exact, self._words = builder, commits, exact, words
        self._good, self._bad = ends
        self._folder = builder.tree.folder / "bisect"
        self._gates = Gates(words, self._folder / "gate", exact)
        # What the gate of both ends said.
        self.sentence = ""

    def search(self, config: str, has_lab: bool) -> Search:
        """Return the search. ``config`` is the key of the configuration. ``has_lab``: a lab confirms its commit."""
        from pytest_pinet.judge.bisection import LAYOUT
        from pytest_pinet.tree.search import EXACT_LAYOUT, Search, SearchJournal

        what = json.dumps([self._good, self._bad, config, self._exact, *self._words])
        journal = SearchJournal(self._folder / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.jsonl")
        confirm, layout = None if has_lab else self.confirm, EXACT_LAYOUT if self._exact else LAYOUT
        return Search(self._commits, journal, self._ends, self._one, confirm, _is_of_driver, say, layout)

    @_timed
    def _ends(self) -> SearchStep:
        folders = []
        for option, commit in (("--good", self._good), ("--bad", self._bad)):
            try:
                folders.append(self._builder.build(commit))
            except BuildError as error:
                raise ConfigError(f"{option}: {error}; name a commit that compiles") from None
        good, bad = folders
        found = self._gates.ends(good, bad, self._bad)
        self.sentence = found.why
        return found

    @_timed
    def _one(self, commit: str, first: SearchStep) -> SearchStep:
        from pytest_pinet.tree.search import SearchStep

        # A commit that exact boards cannot judge, such as one without the driver, is no mistake of the user.
        skipping = (BuildError, InvalidMeasurement, *((ConfigError,) if self._exact else ()))
        try:
            build = self._builder.build(commit or self._good)
            return self._gates.one(build, self._builder.build(self._good), commit, first.figures)
        except skipping as error:
            if not commit:
                raise LabError(f"the good commit cannot be measured again: {first_line(error)}") from error
            say(f"skipped: {first_line(error)}")
            return SearchStep(skipped=commit, why=first_line(error))

    @_timed
    def confirm(self, culprit: Commit, first: SearchStep) -> SearchStep:
        """Gate the culprit against its first parent."""
        from pytest_pinet.judge.bisection import GOOD

        say(f"gating {culprit} against its parent")
        parent, build = culprit.parents[0], self._builder.build
        # A parent outside of the range is as good as the good commit.
        commits = parent if any(one.id == parent for one in self._commits) else GOOD, culprit.id
        return self._gates.confirmed(build(parent), build(culprit.id), commits, first.figures)


def _is_of_driver(driver: str, file: str) -> bool:
    from pytest_pinet.catalogue.maintainers import shipped_owners

    owner = shipped_owners().get(driver)
    return owner is not None and file.startswith(f"{owner.file.rpartition('/')[0]}/")


def _nics_of_driver(lab: str, driver: str) -> list[str]:
    from pytest_pinet.config.labfile import load

    found = {one.nic.name for one in load(lab, in_use=False).interfaces() if one.nic.driver == driver}
    if not found:
        raise ConfigError(f"lab {lab} has no NIC with the driver {driver}, so it cannot confirm the commit")
    return [f"--nic={name}" for name in sorted(found)]


def _answer(commits: Sequence[Commit], share: float, gate: SearchStep | None, on_exact: str) -> Iterator[str]:
    """Yield what was found: a commit with its gate, or the commits that are left.

    ``on_exact`` is what exact boards say of both ends, with the function, if the gate is that of a lab.
    """
    if gate is not None:
        (one,) = commits
        denied = "not decided, its gate against its parent finds no loss"
        yield f"{denied if gate.verdict in _DENIED else 'found'}: {one.id} {one.subject}"
        yield f"author: {one.author}"
        yield f"probability {share:.1%}; against its parent: {gate.why}"
        if on_exact:
            yield f"on exact boards, the bad commit against the good one: {on_exact}"
        return
    yield f"not decided: one of {len(commits)} commits, which no more boots tell apart"
    for one in commits[:_MOST_SHOWN]:
        yield f"  {one} by {one.author}"
    if len(commits) > _MOST_SHOWN:
        yield f"  and {len(commits) - _MOST_SHOWN} more"


def _costs(steps: Sequence[SearchStep], commits: Mapping[str, Commit]) -> Iterator[str]:
    """Yield boots and time, and a line for each skipped commit."""
    measured = {commit for step in steps for commit, _ in step.values if commit}
    boots, minutes = sum(step.boots for step in steps), sum(step.seconds for step in steps) / 60
    gates = sum(step.boots for step in steps if step.gated)
    more = f", {gates} of them in gates of a commit against its parent" if gates else ""
    yield f"{len(measured)} of {len(commits)} commits and the good one measured, {boots} boots{more}, {minutes:.0f} min"
    for step in steps:
        if step.skipped:
            # A compiler's message begins with the commit.
            yield f"skipped: {'' if step.skipped[:12] in step.why else f'{commits[step.skipped]}: '}{step.why}"
