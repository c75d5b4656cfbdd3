"""``pinet report --email``: collects what a mail about a slower kernel needs, and writes its draft to a file."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_pinet.cli.options import write_output
from pytest_pinet.cli.paint import echo
from pytest_pinet.errors import ConfigError

if TYPE_CHECKING:
    from pytest_pinet.builds.maintainers import KernelTree
    from pytest_pinet.catalogue.maintainers import Owner
    from pytest_pinet.model.record.change import ChangeHeadRecord
    from pytest_pinet.model.record.result import RunRecord

RUNS = Path(".pinet") / "runs"
_GIT_TIMEOUT_S = 10.0


def write_mail(run: str | None, tree: Path | None, output: Path) -> None:
    """Write the draft about a run, by default about the newest that gated a build. Raises ConfigError."""
    from pytest_pinet.builds.maintainers import KernelTree
    from pytest_pinet.report.regression_mail import COUNTS, MailFacts, check_reportable, draft, driver_of

    record, folder = _run(run)
    head = check_reportable(record)
    kernel = KernelTree(tree) if tree is not None else None
    owner, trouble = _owner(head, driver_of(record, head), kernel)
    commits = [build.source.commit if build.source is not None else "" for build in (head.a, head.b)]
    facts = MailFacts(owner=owner, sender=_sender(), configs=_configs(folder))
    if kernel is not None and commits[1]:
        subject = kernel.git("show", "--no-patch", "--format=%s", commits[1])
        parents = kernel.git("show", "--no-patch", "--format=%P", commits[1]).split()
        facts = replace(facts, subject=subject, parent=commits[0] in parents, bisect_log=_bisect_log(kernel))
    found = draft(record, facts)
    write_output([found.data.decode("utf-8")], str(output))
    echo(f"{output}: a draft for {found.to or 'the maintainers'}; pinet sends nothing")
    echo(COUNTS)
    if trouble:
        echo(f"pinet: {trouble}", err=True)
    for place in found.places:
        echo(f"  to fill in: {place}")


def _run(run: str | None) -> tuple[RunRecord, Path]:
    from pytest_pinet.cli.run_selection import FORM, latest_change, read_results, results_file

    if run is not None:
        file = results_file(run)
        if file is None:
            raise ConfigError(f"--run: there is no file {run!r}; expected a results.json or a run folder")
        return read_results(file), file.parent
    found = latest_change(RUNS)
    if found is None:
        raise ConfigError(f"no run in {RUNS} gated a build; run pinet gate, or name a run with --run: {FORM}")
    return found


def _owner(head: ChangeHeadRecord, driver: str, kernel: KernelTree | None) -> tuple[Owner | None, str]:
    """Return the owner of the code, or None and the reason."""
    from pytest_pinet.builds.maintainers import owner_of

    try:
        if kernel is not None and head.b.source is not None and head.b.source.commit:
            return kernel.owner_of_commit(head.b.source.commit), ""
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
