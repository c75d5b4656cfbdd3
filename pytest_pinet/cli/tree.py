"""Options that name two commits of a kernel tree, and the builds of these commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from pytest_pinet.cli.command import say
from pytest_pinet.errors import BuildError, ConfigError

if TYPE_CHECKING:
    from pytest_pinet.tree.builder import KernelConfig

_P = ParamSpec("_P")
_R = TypeVar("_R")
HEADING = "Commits of a kernel tree"
NAMES = ("--tree", "--good", "--bad", "--config")


def tree_options(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add the options ``NAMES`` to a command."""
    options = (
        click.option("--tree", metavar="DIR", help="Git repository of the kernel. Nothing is written into it."),
        click.option("--good", metavar="REF", help="The known-good commit: a tag, a branch or a hash."),
        click.option("--bad", metavar="REF", help="The commit under test. Default: HEAD."),
        click.option(
            "--config", metavar="FILE|NAME", type=click.Path(),
            help="Configuration of the kernel, or a defconfig such as bcm2711_defconfig. With --exact, the default is "
            "a small one for the exact boards.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def kernel_config(config: str | None, given: Mapping[str, object]) -> KernelConfig:
    """Return the configuration for the boards of the settings of a run. Raises ConfigError."""
    from pytest_pinet.exact.measure import DEFAULT, exact_boards
    from pytest_pinet.session.exact_gate import chosen
    from pytest_pinet.tree.builder import read_config, small_config

    if config is not None:
        return read_config(config, bool(given["pinet_exact"]))
    if not given["pinet_exact"]:
        raise ConfigError(
            "--tree: boards need --config with the configuration of their kernel, a file or the name of a defconfig "
            "such as bcm2711_defconfig; exact boards (--exact) have one"
        )
    nics = given["pinet_nic"]
    if not isinstance(nics, tuple) or not nics:
        return small_config()
    boards = exact_boards(str(given["pinet_lab"] or DEFAULT))
    return small_config({boards[name].nic.driver for name in chosen(list(boards), nics, "--nic")})


@contextmanager
def built_refs(tree: str, good: str, bad: str, config: KernelConfig, is_plan: bool) -> Iterator[tuple[str, str] | None]:
    """Yield the folders with the builds of two commits; None if one must be built, which a plan does not do.

    The checkout in the cache is at the bad commit, whose lines the report names. Raises ConfigError, LabError, and
    BuildError if the bad commit does not compile.
    """
    from pytest_pinet.tree.builder import TreeBuilder
    from pytest_pinet.tree.sources import Tree

    source = Tree(Path(tree).expanduser())
    commits = {"good": source.resolve(good), "bad": source.resolve(bad)}
    if commits["good"] == commits["bad"]:
        raise ConfigError(f"--good {good} and --bad {bad} are the same commit {commits['good'][:12]}; name two commits")
    with TreeBuilder(source, config, say) as builder:
        missing = [role for role, commit in commits.items() if builder.kept(commit) is None]
        for role, commit in commits.items():
            say(f"{role}: {source.commit(commit)}{', to build' if role in missing else ''}")
        if is_plan and missing:
            yield None
            return
        folders = {}
        for role, commit in commits.items():
            try:
                folders[role] = str(builder.build(commit))
            except BuildError as error:
                say(error.excerpt)
                if role == "good":
                    raise ConfigError(f"--good {good}: {error}; name a commit that compiles") from None
                raise
        source.checkout(commits["bad"])
        yield folders["good"], folders["bad"]
