"""``pinet losses acknowledge``: writes who works on a known loss of goodput, and until when it counts as known."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import HISTORY_OPTION, LAB_OPTION, last_option, print_change
from pytest_pinet.cli.paint import echo
from pytest_pinet.errors import ConfigError, Where, mistake_in
from pytest_pinet.execution.path_kind import exists

T = TypeVar("T")
NOTHING = 1


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
    from pytest_pinet.config.acknowledged import Acknowledgement, acknowledged_text, parse_link
    from pytest_pinet.config.baselines import ACKNOWLEDGED
    from pytest_pinet.config.entries import parse_date, write_entries
    from pytest_pinet.config.labfile import load
    from pytest_pinet.config.reviewed import load_reviewed
    from pytest_pinet.history.history import open_history
    from pytest_pinet.history.losses import level_of
    from pytest_pinet.model.fields import parse_line
    from pytest_pinet.model.quantities import Bitrate
    from pytest_pinet.report.sentences import size_text
    from pytest_pinet.report.text_wrap import count

    today = datetime.now(UTC).date()
    person, day = _parsed("--owner", parse_line, owner), _parsed("--until", parse_date, until)
    url = _parsed("--link", parse_link, link)
    if day < today:
        raise ConfigError(f"--until: {day} is in the past; expected today or a later day")
    lab = load(lab_file, in_use=False)
    reviewed = load_reviewed(lab)
    with open_history(history_url, reviewed=reviewed) as history:
        levels = [level_of(history.trend(one, last, lab.name), today) for one in results_of(history, lab.name, names)]
    losses = [level.loss for level in levels if level.loss is not None]
    if not losses:
        echo(f"pinet: nothing to acknowledge: no loss in {', '.join(names)}", err=True)
        sys.exit(NOTHING)
    new = {
        one.figure: Acknowledgement(
            one.figure, person, day, url, Bitrate(float(f"{one.now_bps:.5g}")), today, Where("")
        )
        for one in losses
    }
    path = lab.baselines / ACKNOWLEDGED
    before = path.read_text(encoding="utf-8") if exists(path) else ""
    after = acknowledged_text([*(dict(reviewed.acknowledged) | new).values()])
    print_change(path, before, after)
    for one in losses:
        echo(f"{one.figure}: {size_text(one, today)}", err=True)
    if not dry_run:
        write_entries(path, after)
        echo(f"{count(len(new), 'entry', 'entries')} written to {path}: review and commit the file", err=True)


def _parsed(option: str, parse: Callable[[object], T], text: str) -> T:
    with mistake_in(option):
        return parse(text.strip())
