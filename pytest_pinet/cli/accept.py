"""``pinet accept``: makes measured values of past runs the baselines of later runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import HISTORY_OPTION, LAB_OPTION, MOST_RUNS, last_option, print_change
from pytest_pinet.cli.paint import echo
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.path_kind import exists

if TYPE_CHECKING:
    from pytest_pinet.config.baselines import AcceptedBaseline
    from pytest_pinet.history.accepting import Candidate
    from pytest_pinet.model.lab import Lab
    from pytest_pinet.model.quantities import Tolerance

NOTHING = 1


@click.command(cls=PinetCommand)
@LAB_OPTION
@HISTORY_OPTION
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option("--reason", required=True, help="Why these values are right. The reason is written to the file.")
@click.option(
    "--build",
    default="",
    metavar="TEXT",
    help="Use only runs of builds whose version contains this text, such as 6.12.25.",
)
@last_option(200, "Use at most this many latest runs.")
@click.option(
    "--least", type=click.IntRange(1, MOST_RUNS), default=5, show_default=True,
    help="The fewest runs that make a baseline. The gate ignores baselines of fewer than 5 runs.",
)  # fmt: skip
@click.option(
    "--lower", is_flag=True,
    help="Accept a lower level as the new normal: runs that failed only because of the present baseline count, too.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the changes, and write nothing.")
def accept(
    lab_file: str,
    history_url: str,
    names: tuple[str, ...],
    reason: str,
    build: str,
    last: int,
    least: int,
    lower: bool,
    dry_run: bool,
) -> None:
    """Make measured values of the history the baselines of later runs, and print what changed in the files.

    Each ID is the id of a result or a glob ('pi4b:*/pair/*'; default: all results of the lab). All runs of the accepted
    build count, also those that did not pass: they show how much the unchanged link varies. Some runs never count:
    errors, invalid results, runs that were repeated or interrupted, runs of a dirty build, and runs before the present
    level was first seen.
    No other command changes a baseline. Commit the files, and have the change reviewed.

    Exit code: 0 if baselines were written; 1 if there was nothing to accept; 4 for wrong arguments.
    """
    from pytest_pinet.cli.run_selection import results_of
    from pytest_pinet.config.labfile import load
    from pytest_pinet.config.reviewed import load_reviewed
    from pytest_pinet.history.accepting import candidate
    from pytest_pinet.history.history import open_history
    from pytest_pinet.report.text_wrap import count

    if not reason.strip():
        raise ConfigError("--reason is empty; expected a text that says why these values are right")
    lab = load(lab_file, in_use=False)
    reviewed = load_reviewed(lab)
    with open_history(history_url, reviewed=reviewed) as history:
        found = [
            candidate(
                history.trend(one, last, lab.name),
                date.today(),
                reason.strip(),
                build,
                least,
                _tolerance(lab, one),
                lower,
            )
            for one in results_of(history, lab.name, names)
        ]
    good = [one.baseline for one in found if one.baseline is not None]
    for path, before, after in _changed(lab.baselines, reviewed.baselines, good, dry_run):
        print_change(path, before, after)
    for one in found:
        echo(_line(one), err=True)
    if not good:
        echo("pinet: nothing to accept", err=True)
        sys.exit(NOTHING)
    if not dry_run:
        echo(f"{count(len(good), 'baseline')} written to {lab.baselines}: review and commit the files", err=True)


def _line(one: Candidate) -> str:
    from pytest_pinet.history.accepting import BELOW_BASELINE

    refused = ", ".join(f"{count} {why}" for why, count in sorted(one.refused.items()))
    left_out = f"; left out: {refused}" if refused else ""
    if one.baseline is None:
        hint = ""
        if BELOW_BASELINE in one.refused:
            hint = "\n  if the lower level is the new normal, accept it with --lower"
        return f"{one.figure}: not accepted: {one.why}{left_out}{hint}"
    spread = f"spread between runs {one.spread * 100:.2f} %"
    days = f"{one.days} day{'' if one.days == 1 else 's'}"
    return (
        f"{one.figure}: {one.baseline.goodput}, {len(one.baseline.runs)} runs of {days}, {spread}{left_out}{_more(one)}"
    )


def _more(one: Candidate) -> str:
    """Return how many days are missing for the tolerance of the limits; empty if the baseline has enough."""
    if one.missing == 0:
        return ""
    if one.missing is None:
        return (
            f"\n  no number of days is enough for the tolerance {one.tolerance}: days differ too much. Raise the "
            "tolerance, or compare both builds in one session (pinet gate)"
        )
    more = f"{one.missing} more day{' is' if one.missing == 1 else 's are'}"
    return f"\n  {more} missing for the tolerance {one.tolerance}: until then, many gates will be inconclusive"


def _tolerance(lab: Lab, figure: str) -> Tolerance:
    """Return the tolerance that the limits of the lab file set for a metric, or the default."""
    from pytest_pinet.judge.limits import most_specific
    from pytest_pinet.model.limits import Metric
    from pytest_pinet.model.metric_key import CombinationId, MetricKey
    from pytest_pinet.model.quantities import DEFAULT_TOLERANCE, Tolerance
    from pytest_pinet.model.traffic import Direction, Traffic

    way = Direction.RX if figure.endswith("-rx") else Direction.TX
    traffic = Traffic(Direction.BIDIR if "-bidir-" in figure else way)
    combination = CombinationId.parse(figure.rpartition("/")[0])
    limit = most_specific(lab.limits, MetricKey(combination, traffic, way), Metric.TOLERANCE)
    return limit.bound if limit is not None and isinstance(limit.bound, Tolerance) else DEFAULT_TOLERANCE


def _changed(
    folder: Path, known: Mapping[str, AcceptedBaseline], good: Sequence[AcceptedBaseline], dry_run: bool
) -> list[tuple[Path, str, str]]:
    """Return each file that changes with its text before and after. The files are written unless ``dry_run``."""
    from pytest_pinet.config.baselines import baselines_text, read_baselines, write_baselines
    from pytest_pinet.history.accepting import family_of

    by_file: dict[Path, dict[str, AcceptedBaseline]] = {}
    for one in good:
        # An entry stays in its present file.
        path = Path(known[one.id].where.file) if one.id in known else folder / family_of(one.id)
        by_file.setdefault(path, {})[one.id] = one
    changes = []
    for path, new in sorted(by_file.items()):
        before = path.read_text(encoding="utf-8") if exists(path) else ""
        kept = {one.id: one for one in read_baselines(path)} if before else {}
        changes.append((path, before, baselines_text((kept | new).values())))
        if not dry_run:
            write_baselines(path, (kept | new).values())
    return changes
