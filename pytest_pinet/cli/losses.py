"""``pinet losses``: lists the losses of goodput that did not recover; acknowledges them; names who can help."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from pytest_pinet.cli.acknowledge import acknowledge
from pytest_pinet.cli.command import DefaultGroup
from pytest_pinet.cli.options import HISTORY_OPTION, LAB_OPTION, last_option, print_result
from pytest_pinet.cli.who import who

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
    from pytest_pinet.config.labfile import load
    from pytest_pinet.config.reviewed import load_reviewed
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
