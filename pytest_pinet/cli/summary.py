"""``pinet summary``: summarizes a run on one page."""

from __future__ import annotations

import click

from pytest_pinet.cli.command import PinetCommand
from pytest_pinet.cli.options import OUTPUT_OPTION, print_lines, write_output
from pytest_pinet.errors import ConfigError


@click.command(cls=PinetCommand)
@click.argument("what", metavar="[FILE]", default=".pinet/latest")
@click.option(
    "--format", "form", type=click.Choice(["md", "text"]), default="text", show_default=True,
    help="md: Markdown for a CI job or a merge request; text: the table of the terminal.",
)  # fmt: skip
@OUTPUT_OPTION
def summary(what: str, form: str, output: str | None) -> None:
    """Summarize a run: first the verdict in words, then the results.

    FILE is a results.json or a run folder; the default is the last run in this folder.
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
    if form == "md":
        write_output([summary_markdown(run)], output)
        return
    lines = [verdict_in_words(run), "", *summary_table(run.results, run.skipped)]
    if run.change is not None:
        lines = [*change_lines(run.change, run.skipped, results=run.results), *wrap(emulated_words(run), hanging="  ")]
    if output is None:
        print_lines(lines)
    else:
        write_output([f"{line}\n" for line in lines], output)
