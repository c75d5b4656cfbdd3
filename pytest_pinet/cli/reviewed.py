"""What people decide about results, in files under review: ``pinet accept`` and ``pinet losses``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import DefaultGroup, PinetCommand, parsed, say
from pytest_pinet.cli.options import HISTORY_OPTION, LAB_OPTION, MOST_RUNS, last_option, print_change, print_result
from pytest_pinet.cli.owners import who
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.files import exists

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
    build count, also runs that did not pass: they show how much the unchanged link varies. Some runs never count:
    errors, invalid results, runs that were repeated or interrupted, runs of a dirty build, and runs before the present
    level was first seen.
    No other command changes a baseline. Commit the files, and have the change reviewed.

    Exit code: 0 if baselines were written; 1 if there was nothing to accept; 4 for wrong arguments.
    """
    from pytest_pinet.cli.run_selection import results_of
    from pytest_pinet.config.baselines import load_reviewed
    from pytest_pinet.config.labfile import load
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
        print_change(str(path), before, after)
    for one in found:
        say(_line(one))
    if not good:
        say("pinet: nothing to accept")
        sys.exit(NOTHING)
    if not dry_run:
        say(f"{count(len(good), 'baseline')} written to {lab.baselines}: review and commit the files")


def _line(one: Candidate) -> str:
    from pytest_pinet.history.accepting import BELOW_BASELINE
    from pytest_pinet.report.text_wrap import count

    refused = ", ".join(f"{number} {why}" for why, number in sorted(one.refused.items()))
    left_out = f"; left out: {refused}" if refused else ""
    if one.baseline is None:
        hint = "\n  if the lower level is the new normal, accept it with --lower"
        return f"{one.figure}: not accepted: {one.why}{left_out}{hint if BELOW_BASELINE in one.refused else ''}"
    spread = f"spread between runs {one.spread * 100:.2f} %"
    runs = f"{len(one.baseline.runs)} runs of {count(one.days, 'day')}"
    return f"{one.figure}: {one.baseline.value}, {runs}, {spread}{left_out}{_more(one)}"


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
    from pytest_pinet.judge.profile import most_specific
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


@click.command(cls=PinetCommand, short_help="Write that a loss is known, and who works on it.")
@LAB_OPTION
@HISTORY_OPTION
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@click.option("--owner", required=True, metavar="NAME", help="Who works on the loss.")
@click.option("--until", required=True, metavar="DATE", help="The last day on which it counts as known: 2026-12-31.")
@click.option("--link", required=True, metavar="URL", help="Where the loss is tracked.")
@last_option(1000, "Use at most this many latest runs of each result.", least=2)
@click.option("--dry-run", is_flag=True, help="Print the changes, and write nothing.")
def acknowledge(
    lab_file: str,
    history_url: str,
    names: tuple[str, ...],
    owner: str,
    until: str,
    link: str,
    last: int,
    dry_run: bool,
) -> None:
    """Write that a loss of goodput is known: its owner, its last day, and where it is tracked.

    Each ID is the id of a result, or a glob ('pi4b:*/pair/*'); 'pinet losses' lists the results with a loss. After the
    last day the loss is open again. A further loss of the same result is open at once. The entry is written to
    acknowledged.yaml beside the baselines. Commit the file, and have the change reviewed.

    Exit code: 0 if an entry was written; 1 if no result has a loss; 4 for wrong arguments.
    """
    from pytest_pinet.cli.run_selection import results_of
    from pytest_pinet.config.baselines import (
        ACKNOWLEDGED,
        Acknowledgement,
        acknowledged_text,
        load_reviewed,
        parse_link,
    )
    from pytest_pinet.config.entries import parse_date, write_entries
    from pytest_pinet.config.labfile import load
    from pytest_pinet.history.history import open_history
    from pytest_pinet.history.losses import level_of
    from pytest_pinet.model.fields import parse_line
    from pytest_pinet.report.sentences import size_text
    from pytest_pinet.report.text_wrap import count

    today = datetime.now(UTC).date()
    person, day = parsed("--owner", parse_line, owner), parsed("--until", parse_date, until)
    url = parsed("--link", parse_link, link)
    if day < today:
        raise ConfigError(f"--until: {day} is in the past; expected today or a later day")
    lab = load(lab_file, in_use=False)
    reviewed = load_reviewed(lab)
    with open_history(history_url, reviewed=reviewed) as history:
        levels = [level_of(history.trend(one, last, lab.name), today) for one in results_of(history, lab.name, names)]
    losses = [level.loss for level in levels if level.loss is not None]
    if not losses:
        say(f"pinet: nothing to acknowledge: no loss in {', '.join(names)}")
        sys.exit(NOTHING)
    new = {
        one.figure: Acknowledgement(
            one.figure, person, day, url, one.kind.quantity(float(f"{one.now:.5g}")), today, Where("")
        )
        for one in losses
    }
    path = lab.baselines / ACKNOWLEDGED
    before = path.read_text(encoding="utf-8") if exists(path) else ""
    after = acknowledged_text([*(dict(reviewed.acknowledged) | new).values()])
    print_change(str(path), before, after)
    for one in losses:
        say(f"{one.figure}: {size_text(one, today)}")
    if not dry_run:
        write_entries(path, after)
        say(f"{count(len(new), 'entry', 'entries')} written to {path}: review and commit the file")


OPEN = 1
# The newest gates say which builds were judged since a loss began.
_GATES = 5


@click.group(cls=DefaultGroup)
def losses() -> None:
    """List which results of a lab lost goodput and did not recover; write that a loss is known; name who can help.

    Each ID is the id of a result or a glob ('pi4b:*/pair/*'; default: all results of the lab). 'show' is the default
    command.

    Exit code: 0 if no loss is open; 1 if at least one is open; 4 for wrong arguments, or if the lab has no results.
    """


@losses.command(short_help="List the losses: the default.")
@LAB_OPTION
@HISTORY_OPTION
@click.argument("names", metavar="[ID]...", nargs=-1)
@last_option(1000, "Use at most this many latest runs of each result.", least=2)
@click.option("--json", "as_json", is_flag=True, help="Print the losses as JSON.")
def show(lab_file: str, history_url: str, names: tuple[str, ...], last: int, as_json: bool) -> None:
    """List which results of a lab lost goodput and did not recover: size, age, cause and owner.

    Each ID is the id of a result or a glob ('pi4b:*/pair/*'; default: all results of the lab). A loss stays in this
    list even if its runs pass. It ends if the level recovers or if 'pinet accept' makes the lower level the baseline.
    After 'pinet losses acknowledge' it is known until a day. The newest changes that 'pinet gate' judged are listed
    below.

    Exit code: 0 if no loss is open; 1 if at least one is open; 4 for wrong arguments, or if the lab has no results.
    """
    from pytest_pinet.cli.run_selection import results_of
    from pytest_pinet.config.baselines import load_reviewed
    from pytest_pinet.config.labfile import load
    from pytest_pinet.history.history import open_history
    from pytest_pinet.history.losses import level_of
    from pytest_pinet.history.results_file import moment
    from pytest_pinet.history.text import gate_text
    from pytest_pinet.report.sentences import loss_lines, loss_record, losses_sentence, lost
    from pytest_pinet.report.text_wrap import count

    lab, today = load(lab_file, in_use=False), datetime.now(UTC).date()
    with open_history(history_url, reviewed=load_reviewed(lab)) as history:
        chosen = results_of(history, lab.name, names)
        levels = [level_of(found, today) for _, found in history.trends(last, lab.name) if found.figure in chosen]
        (newest,) = history.runs(1, lab.name)
        gates = history.gates(_GATES, lab.name)
    found = lost(levels)
    day = moment(newest.started)
    head = f"lab {lab.name}: {losses_sentence(found) or 'no loss is open'}"
    counted = f"{count(len(levels), 'result')}, newest run {day:%Y-%m-%d}"
    gated = [f"{moment(run.started):%Y-%m-%d}  {gate_text(run.change)}" for run in gates if run.change is not None]
    record = {
        "lab": lab.name,
        "results": len(levels),
        "newest_run": day.isoformat(),
        "losses": [loss_record(one, today) for one in found],
        "gates": [run.dump() for run in gates],
    }
    print_result(as_json, lambda: record, lambda: [head, counted, *loss_lines(found, today), *gated])
    if any(one.loss is not None and one.loss.is_open for one in found):
        sys.exit(OPEN)


losses.add_command(acknowledge)
losses.add_command(who)
