"""``pinet summary``: summarizes a run on one page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.configured import configured
from pytest_pinet.cli.options import DEFAULT_HISTORY, HISTORY_OPTION, OUTPUT_OPTION, print_lines, write_output
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.path_kind import exists, is_file

if TYPE_CHECKING:
    from pytest_pinet.model.record.result import RunRecord


@click.command(cls=PinetCommand)
@click.argument("what", metavar="[FILE]", default=".pinet/latest")
@click.option(
    "--format", "form", type=click.Choice(["md", "text"]), default="text", show_default=True,
    help="md: Markdown for a CI job or a merge request; text: the table of the terminal.",
)  # fmt: skip
@HISTORY_OPTION
@OUTPUT_OPTION
def summary(what: str, form: str, history_url: str, output: str | None) -> None:
    """Summarize a run: first the verdict in words, then the results.

    FILE is a results.json or a run folder; the default is the last run in this folder. If the history has runs of the
    same lab, the summary also lists its losses that did not recover (see pinet losses).
    """
    from pytest_pinet.cli.run_selection import read_results, results_file
    from pytest_pinet.report.change_table import change_lines, emulated_words
    from pytest_pinet.report.markdown import summary_markdown, verdict_in_words
    from pytest_pinet.report.terminal import summary_table
    from pytest_pinet.report.text_wrap import wrap

    path = results_file(what)
    if path is None:
        raise ConfigError(f"there is no {what!r}; expected a results.json or a run folder such as .pinet/latest")
    run = read_results(path)
    losses = _losses(run, history_url)
    if form == "md":
        write_output([summary_markdown(run, losses=losses)], output)
        return
    lines = [verdict_in_words(run), "", *summary_table(run.results, run.skipped)]
    if run.change is not None:
        lines = [*change_lines(run.change, run.skipped, results=run.results), *wrap(emulated_words(run), hanging="  ")]
    lines += ["", *losses] if losses else []
    if output is None:
        print_lines(lines)
    else:
        write_output([f"{line}\n" for line in lines], output)


def _losses(run: RunRecord, history_url: str) -> list[str]:
    """Return lines about the losses of the run's lab; none without a history or the lab file."""
    from pytest_pinet.config.lab_path import is_name
    from pytest_pinet.config.labfile import load
    from pytest_pinet.history.history import OFF
    from pytest_pinet.report.sentences import read_losses, short_lines

    file = configured("lab") or run.lab_file
    no_history = history_url.lower() in OFF or (history_url == DEFAULT_HISTORY and not exists(history_url))
    if no_history or not (is_name(file) or is_file(file)):
        return []
    today = datetime.now(UTC).date()
    try:
        lab = load(file, in_use=False)
        return short_lines(read_losses(history_url, lab, today), today) if lab.name == run.lab else []
    except ConfigError as error:
        # The results are worth a summary, whatever is wrong with other files.
        return [f"losses are not known: {error}"]
