"""Who can help: ``pinet losses who``, and the draft of a mail about a slower kernel (``pinet report --email``)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import PinetCommand, echo, say
from pytest_pinet.cli.options import HISTORY_OPTION, has_history, print_result, write_output
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.files import is_file
from pytest_pinet.execution.names import quoted

if TYPE_CHECKING:
    from pytest_pinet.builds.kernel_tree import KernelTree
    from pytest_pinet.catalogue.maintainers import Owner
    from pytest_pinet.model.record.change import ChangeHeadRecord
    from pytest_pinet.model.record.result import RunRecord


TREE_OPTION = click.option(
    "--tree", metavar="DIR", type=click.Path(path_type=Path),
    help="The source of a kernel. Its get_maintainer.pl replaces the shipped table.",
)  # fmt: skip


@click.command(cls=PinetCommand, short_help="Name the maintainers of a result, a build or a driver.")
@HISTORY_OPTION
@TREE_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print a list instead of the text.")
@click.argument("what", metavar="METRIC|BUILD|DRIVER")
def who(history_url: str, tree: Path | None, as_json: bool, what: str) -> None:
    """Name the driver, its file and its entry of the kernel's MAINTAINERS.

    METRIC is the id of a result or a glob ('pi4b:*'). Its driver is the one of its newest run in the history, or of the
    catalogue. BUILD is a build as for 'pinet gate': the drivers that it replaces or sets; with its commit and the
    source of the kernel, the files of this commit. Without --tree, a table with its date is used for the drivers of the
    catalogue.
    """
    from pytest_pinet.builds.kernel_tree import KernelTree, owner_of

    kernel = KernelTree(tree) if tree is not None else None
    if os.path.lexists(what):
        owners = _owners_of_build(what, kernel)
    else:
        owners = [owner_of(driver, kernel) for driver in _drivers(what, history_url)]
    print_result(as_json, lambda: [_record(one) for one in owners], lambda: _lines(owners))


def _lines(owners: Sequence[Owner]) -> Iterator[str]:
    for owner in owners:
        yield f"{owner.what}: {owner.file}"
        yield f"  {', '.join(owner.entries)} ({owner.source})"
        yield from (f"  {one.role}: {one.address}" for one in owner.contacts)


def _record(owner: Owner) -> dict[str, object]:
    contacts = [{"address": one.address, "role": one.role, "entry": one.entry} for one in owner.contacts]
    named = {"driver": owner.what, "file": owner.file, "source": owner.source}
    return {**named, "entries": owner.entries, "contacts": contacts}


def _owners_of_build(what: str, kernel: KernelTree | None) -> list[Owner]:
    from pytest_pinet.builds.kernel_tree import KernelTree, owner_of, tree_of
    from pytest_pinet.builds.load import load_build
    from pytest_pinet.model.build import BuildFileRole

    build = load_build(what)
    if kernel is None and (found := tree_of(build)) is not None:
        kernel = KernelTree(found)
    commit = build.source.commit if build.source is not None else ""
    owners = [kernel.owner_of_commit(commit)] if kernel is not None and commit else []
    modules = [file.name.partition(".ko")[0] for file in build.of(BuildFileRole.MODULE)]
    drivers = dict.fromkeys([*modules, *(module for module, _, _ in build.options)])
    owners += [owner_of(driver, kernel) for driver in drivers]
    if not owners:
        needs = "give the source of its kernel with --tree DIR" if commit else "its commit is not known"
        raise ConfigError(f"build {build.name} replaces no single driver, and {needs}; or name a metric or a driver")
    return owners


def _drivers(what: str, history_url: str) -> list[str]:
    """Return the drivers of a metric, or the driver itself. Raises ConfigError."""
    from pytest_pinet.catalogue import load
    from pytest_pinet.catalogue.maintainers import shipped_owners
    from pytest_pinet.model.metric_key import CombinationId

    if not any(mark in what for mark in ":/*?["):
        return [what]
    found = _drivers_of_history(what, history_url)
    if not found:
        here, catalogue = CombinationId.parse(what), load()
        board = catalogue.boards.get(here.board)
        name = board.onboard if board is not None and here.nic == "onboard" else here.nic
        nic = catalogue.nics.get(name or "")
        found = [nic.driver] if nic is not None and " " not in nic.driver else []
    if not found:
        known = ", ".join(sorted(shipped_owners()))
        raise ConfigError(
            f"neither the history nor the catalogue knows the driver of {quoted(what)}; name the driver: {known}"
        )
    return found


def _drivers_of_history(what: str, history_url: str) -> list[str]:
    from pytest_pinet.history.history import open_history

    if not has_history(history_url):
        return []
    drivers: dict[str, None] = {}
    with open_history(history_url) as store:
        for figure, points in store.latest(1):
            if fnmatchcase(figure.id, what) or figure.id.startswith(f"{what.rstrip('/')}/"):
                drivers |= {driver: None for point in points if (driver := point.build.get("driver"))}
    return list(drivers)


_RUNS = Path(".pinet") / "runs"
_GIT_TIMEOUT_S = 10.0


def write_mail(run: str | None, tree: Path | None, output: Path) -> None:
    """Write the draft about a run, by default about the newest that gated a build. Raises ConfigError."""
    from pytest_pinet.builds.kernel_tree import KernelTree
    from pytest_pinet.report.regression_mail import COUNTS, MailFacts, check_reportable, draft, worst_result

    record, folder = _run(run)
    head = check_reportable(record)
    kernel = KernelTree(tree) if tree is not None else None
    worst = worst_result(record, head)
    owner, trouble = _owner(head, worst.build.get("driver") or "", kernel)
    commits = [build.known_source.commit for build in (head.a, head.b)]
    client = _raw(folder, next((name for name in worst.files if name.endswith("client.cmd")), ""))
    facts = MailFacts(owner=owner, sender=_sender(), configs=_configs(folder), client=client)
    if kernel is not None and commits[1]:
        subject = kernel.git("show", "--no-patch", "--format=%s", commits[1])
        parents = kernel.git("show", "--no-patch", "--format=%P", commits[1]).split()
        facts = replace(facts, subject=subject, parent=commits[0] in parents, bisect_log=_bisect_log(kernel))
    found = draft(record, facts)
    write_output([found.data.decode("utf-8")], str(output))
    echo(f"{output}: a draft for {found.to or 'the maintainers'}; pinet sends nothing")
    echo(COUNTS)
    if trouble:
        say(f"pinet: {trouble}")
    for place in found.places:
        echo(f"  to fill in: {place}")


def _run(run: str | None) -> tuple[RunRecord, Path]:
    from pytest_pinet.cli.run_selection import FORM, latest_change, read_results, results_file

    if run is not None:
        file = results_file(run)
        if file is None:
            raise ConfigError(f"--run: there is no file {run!r}; expected a results.json or a run folder")
        return read_results(file), file.parent
    found = latest_change(_RUNS)
    if found is None:
        raise ConfigError(f"no run in {_RUNS} gated a build; run pinet gate, or name a run with --run: {FORM}")
    return found


def _owner(head: ChangeHeadRecord, driver: str, kernel: KernelTree | None) -> tuple[Owner | None, str]:
    """Return the owner of the code, or None and the reason."""
    from pytest_pinet.builds.kernel_tree import owner_of

    try:
        if kernel is not None and (commit := head.b.known_source.commit):
            return kernel.owner_of_commit(commit), ""
        return owner_of(driver, kernel), ""
    except ConfigError as error:
        return None, f"the mail has no maintainers: {error}"


def _configs(folder: Path) -> list[str] | None:
    """Return how the kernel configurations differ; None if one of them is not in the run folder."""
    from pytest_pinet.report.regression_mail import config_differences

    texts = []
    for side in "AB":
        try:
            texts.append((folder / f"build-{side}.config").read_text("utf-8", "replace"))
        except OSError:
            return None
    return config_differences(*texts)


def _raw(folder: Path, name: str) -> str:
    """Return the text of a file of a run; empty if there is none."""
    path = folder / name
    is_ours = is_file(path) and path.resolve().is_relative_to(folder.resolve())
    return path.read_text("utf-8", "replace") if is_ours else ""


def _bisect_log(kernel: KernelTree) -> str:
    """Return the log of a bisection that is under way in the tree; empty if there is none."""
    with suppress(ConfigError):
        return kernel.git("bisect", "log")
    return ""


def _sender() -> str:
    """Return name and address of git's configuration; empty if git does not have both."""
    words = []
    for key in ("user.name", "user.email"):
        with suppress(OSError, subprocess.SubprocessError):
            argv = ["git", "config", "--get", key]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False)
            words.append(" ".join(done.stdout.split()))
    return f"{words[0]} <{words[1]}>" if len(words) == 2 and all(words) else ""
