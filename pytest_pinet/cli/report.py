"""``pinet report``: writes a page about the measurements."""

from __future__ import annotations

import atexit
import gc
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pytest_pinet.cli.command import PinetCommand, echo, say
from pytest_pinet.cli.options import HISTORY_OPTION, configured, has_history, lab_files, last_option, write_output
from pytest_pinet.cli.owners import TREE_OPTION, write_mail
from pytest_pinet.errors import ConfigError, sentence
from pytest_pinet.execution.files import is_folder
from pytest_pinet.execution.text import parse_json

if TYPE_CHECKING:
    from pytest_pinet.config.schema import LabOfFile
    from pytest_pinet.history.points import StoredRun
    from pytest_pinet.report.allure.tool import Allure
    from pytest_pinet.report.trends import FigureSeries

# A single file with the evidence of more results than this is slow to open.
MOST_IN_ONE_FILE = 100
# The newest gates that the page lists.
_GATES = 10


@click.command(cls=PinetCommand)
@click.option(
    "--allure-results", "results", metavar="DIR", type=click.Path(path_type=Path),
    help="Results that pytest wrote with --alluredir. Without it, the report is pytest-pinet's own page.",
)  # fmt: skip
@click.option(
    "-o", "--output", "file", metavar="FILE", default="report.html", show_default=True, help="The file to write.",
)  # fmt: skip
@HISTORY_OPTION
@click.option(
    "--lab",
    "lab_file",
    metavar="FILE",
    default=lambda: configured("lab"),
    shell_complete=lab_files,
    help="The lab file, or the name of a packaged lab. Its accepted baselines are shown.",
)
@last_option(200, "The number of runs in each trend.", least=2)
@click.option("--page", is_flag=True, help="Write pytest-pinet's own page even if Allure is installed.")
@click.option(
    "--email", is_flag=True,
    help="Write the draft of a mail to kernel developers about the newest slower build, to regression.eml.",
)  # fmt: skip
@click.option("--run", metavar="RUN", default=None, help="With --email: the results.json or run folder to write about.")
@TREE_OPTION
def report(
    results: Path | None,
    file: str,
    history_url: str,
    lab_file: str | None,
    last: int,
    page: bool,
    email: bool,
    run: str | None,
    tree: Path | None,
) -> None:
    """Write a report with the trend of every combination, or the draft of a mail about a slower kernel.

    The report is made by Allure 3 or 2 if installed, else it is pytest-pinet's own page. A mail is never sent: it is
    written to a file, with places in brackets that only you can fill.
    """
    if not file:
        raise ConfigError("-o is empty; expected the name of a file")
    output = Path(file)
    if email:
        chosen = click.get_current_context().get_parameter_source("file") is not ParameterSource.DEFAULT
        write_mail(run, tree, output if chosen else Path("regression.eml"))
        return
    if run is not None or tree is not None:
        raise ConfigError("--run and --tree belong to --email; add --email, or remove them")
    from pytest_pinet.report.text_wrap import count

    began = time.monotonic()
    # A page has a million values, none of which becomes garbage: looking for garbage takes a third of the time.
    gc.disable()
    # At its end, Python looks once more.
    atexit.register(gc.freeze)
    click.get_current_context().call_on_close(gc.enable)
    if results is not None and not is_folder(results):
        raise ConfigError(f"--allure-results: there is no folder {results}; expected the folder of pytest --alluredir")
    lab = None
    if lab_file is not None:
        from pytest_pinet.config.labfile import load

        lab = load(lab_file, in_use=False)
    found, gates = _series(history_url, lab, last)
    allure = None
    if results is not None and not page:
        from pytest_pinet.report.allure.tool import find_allure

        # 'make report' installs Allure beside this Python.
        allure = find_allure([Path.cwd(), Path(sys.prefix) / "allure"])
    if allure is not None and results is not None:
        if not any(results.glob("*-result.json")):
            # A page of such results is empty, and looks as if nothing were wrong.
            why = "no test ran, or --alluredir was missing"
            say(sentence(f"pinet: {results} has no test results, so the report is empty: {why}"))
        place = _by_allure(allure, results, found, output)
        made_by = str(allure)
    else:
        from pytest_pinet.cli.run_selection import latest_change
        from pytest_pinet.report.page.page import page as own_page
        from pytest_pinet.report.page.panels import PageLinks

        changed = latest_change(Path(".pinet") / "runs")
        if changed is None and not gates and not any(one.points for one in found):
            raise ConfigError(f"there are no runs in {history_url} or .pinet/runs to report; run pytest first")
        place, made_by = output, "pytest-pinet's own page"
        if results is not None and not page:
            say("pinet: no Allure found, so this is our own page ('make report' installs Allure)")
        links = PageLinks(output.absolute().parent, lab.commits if lab is not None else "")
        gated, folder = changed or (None, None)
        text = own_page(found, datetime.now(UTC), gated, links, gates, folder, lab is not None)
        write_output([text], str(output))
        if gated is not None and gated.change is not None:
            made_by += f", with 1 change of {count(len(gated.change.entries), 'metric')}"
    size = sum(path.stat().st_size for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file())
    seconds = time.monotonic() - began
    series = sum(bool(one.measured) for one in found)
    shown = f"{count(series, 'result')}, " if series else ""
    echo(f"report: {place} ({size / 1e6:.1f} MB, {shown}{seconds:.1f} s, {made_by})")
    if lab is None and any(one.level.loss is not None for one in found):
        say("pinet: no lab file, so accepted or acknowledged losses may look open; name it with --lab")
    if place.is_dir():
        echo(f"browsers cannot show this report from a file; serve the folder: python3 -m http.server -d {place}")


def _series(url: str, lab: LabOfFile | None, last: int) -> tuple[list[FigureSeries], list[StoredRun]]:
    """Return the series and the gates of the history; without a history the series of the run folders."""
    from pytest_pinet.config.baselines import Reviewed, load_reviewed
    from pytest_pinet.history.history import open_history
    from pytest_pinet.report.trends import all_series, series_of_runs

    reviewed = load_reviewed(lab) if lab is not None else Reviewed()
    if not has_history(url):
        return series_of_runs(Path.cwd(), reviewed, last), []
    with open_history(url, reviewed=reviewed) as history:
        return all_series(history, last), history.gates(_GATES)


def _by_allure(allure: Allure, results: Path, found: list[FigureSeries], output: Path) -> Path:
    from pytest_pinet.report.allure import identity
    from pytest_pinet.report.allure.run_files import RUN_FILE
    from pytest_pinet.report.allure.tool import generate

    try:
        found_run = parse_json((results / RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found_run = {}
    run = found_run if isinstance(found_run, dict) else {}
    tests = identity.remembered(identity.known_tests(results), identity.MEMORY)
    runs = identity.runs_of(found, str(run.get("run", "")))
    history = identity.allure3_history(runs, tests) if allure.version[0] >= 3 else identity.allure2_history(runs, tests)
    single = len(list(results.glob("*-result.json"))) <= MOST_IN_ONE_FILE
    place = output if single else output.with_suffix("")
    generate(allure, results.absolute(), history, str(run.get("build") or "pytest-pinet"), place.absolute(), single)
    return place
