"""``pinet report``: writes a page about the measurements."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.history_file import DEFAULT_HISTORY, HISTORY_OPTION
from pytest_pinet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_pinet.config.baselines import AcceptedBaseline
    from pytest_pinet.report.allure.derived import KnownTest
    from pytest_pinet.report.allure.tool import Allure
    from pytest_pinet.report.record import RunRecord
    from pytest_pinet.report.series import FigureSeries

# Which metrics the tests in Allure's results measure. The file can be deleted.
MEMORY = Path(".pinet/allure-tests.json")
# A single file with the evidence of more results than this is slow to open.
MOST_IN_ONE_FILE = 100


@click.command()
@click.option(
    "--allure-results", "results", metavar="DIR", type=click.Path(path_type=Path),
    help="Results that pytest wrote with --alluredir; without them the report is our own page.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", default="report.html", type=click.Path(path_type=Path), show_default=True
)
@HISTORY_OPTION
@click.option("--lab", "lab_file", metavar="FILE", help="Lab file, for its accepted baselines.")
@click.option("--last", metavar="N", type=click.IntRange(2), default=200, show_default=True, help="Runs of each trend.")
@click.option("--page", is_flag=True, help="Our own page, also where Allure is there.")
def report(results: Path | None, output: Path, history_url: str, lab_file: str | None, last: int, page: bool) -> None:
    """Write a report with the trend of every combination: by Allure 3, else Allure 2, else our own page."""
    from pytest_pinet.report.allure.derived import known_tests, remembered

    began = time.monotonic()
    if results is not None and not results.is_dir():
        raise ConfigError(f"--allure-results: there is no folder {results}; expected what pytest --alluredir wrote")
    found = _series(history_url, lab_file, last)
    allure = _allure() if results is not None and not page else None
    if allure is not None and results is not None:
        if not any(results.glob("*-result.json")):
            # A page of such results is empty, and looks as if nothing were wrong.
            click.echo(f"pinet: {results} holds no result of any test: nothing was measured", err=True)
        tests = remembered(known_tests(results), MEMORY)
        place = _by_allure(allure, results, tests, found, output)
        made_by = str(allure)
    else:
        changed = _changed(Path(".pinet") / "runs")
        if changed is None and not any(series.dots for series in found):
            raise ConfigError(
                f"nothing to report: there are no runs in {history_url} nor below .pinet/runs; run pytest first"
            )
        place, made_by = output, "pytest-pinet's own page"
        if results is not None and not page:
            click.echo("pinet: no Allure was found ('make report' installs it)", err=True)
        _own_page(found, output, changed)
        made_by += ", with 1 change" if changed is not None else ""
    size = sum(path.stat().st_size for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file())
    seconds = time.monotonic() - began
    figures = sum(bool(series.measured) for series in found)
    click.echo(f"report: {place} ({size / 1e6:.1f} MB, {figures} figures, {seconds:.1f} s, {made_by})")
    if place.is_dir():
        click.echo(f"to read it: python3 -m http.server -d {place} (browsers refuse to open it from a file)")


def _series(url: str, lab_file: str | None, last: int) -> list[FigureSeries]:
    """Return the series of the history, or of the run folders if there is no history."""
    from pytest_pinet.history.database import OFF
    from pytest_pinet.history.history import History
    from pytest_pinet.report.trends import all_series, series_of_runs

    baselines = _baselines(lab_file)
    if url.lower() in OFF or (url == DEFAULT_HISTORY and not Path(url).exists()):
        return series_of_runs(Path.cwd(), baselines, last)
    with History.open(url, baselines) as history:
        return all_series(history, last)


def _baselines(lab_file: str | None) -> Mapping[str, AcceptedBaseline]:
    if lab_file is None:
        return {}
    from pytest_pinet.config.baselines import load_baselines
    from pytest_pinet.config.labfile import load

    return load_baselines(load(lab_file))


def _allure() -> Allure | None:
    """Find Allure below this folder, beside this Python (where ``make report`` puts it), or on PATH."""
    from pytest_pinet.report.allure.tool import find_allure

    return find_allure([Path.cwd(), Path(sys.prefix) / "allure"])


def _by_allure(
    allure: Allure, results: Path, tests: Sequence[KnownTest], found: list[FigureSeries], output: Path
) -> Path:
    from pytest_pinet.report.allure.derived import allure2_history, allure3_history, runs_of
    from pytest_pinet.report.allure.run_files import RUN_FILE
    from pytest_pinet.report.allure.tool import generate

    try:
        run = json.loads((results / RUN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        run = {}
    runs = runs_of(found, str(run.get("run", "")))
    history = allure3_history(runs, tests) if allure.version[0] >= 3 else allure2_history(runs, tests)
    single = len(list(results.glob("*-result.json"))) <= MOST_IN_ONE_FILE
    place = output if single else output.with_suffix("")
    generate(allure, results.absolute(), history, str(run.get("build") or "pytest-pinet"), place.absolute(), single)
    return place


def _changed(runs: Path) -> RunRecord | None:
    """Return the newest run that gated a change. Such runs are not part of any trend."""
    for path in sorted(runs.glob("*/results.json"), reverse=True):
        try:
            record: RunRecord = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            # The file of a killed run.
            continue
        if "change" in record:
            return record
    return None


def _own_page(found: list[FigureSeries], output: Path, changed: RunRecord | None) -> None:
    from pytest_pinet.report.json_file import replace_file, writing
    from pytest_pinet.report.page.page import page

    text = page(found, datetime.now(UTC), changed)
    with writing(output, "-o"):
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output.absolute(), text.encode("utf-8", "replace"))
