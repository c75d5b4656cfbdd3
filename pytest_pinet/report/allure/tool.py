"""Finds and runs the `allure` command, and removes the analytics scripts from its report."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.files import write_file, writing
from pytest_pinet.execution.shell import last_line
from pytest_pinet.execution.text import parse_json
from pytest_pinet.report.allure.identity import categories

# The first version with metrics.
METRICS_SINCE = (3, 17)
VARIABLE = "PINET_ALLURE"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_VERSION_TIMEOUT_S = 60.0
# Generating a report of 5,000 results with evidence took 31 s.
_GENERATE_TIMEOUT_S = 600.0
# Allure's pages contact Google Analytics when opened: one async script, and one that configures it.
_ANALYTICS = re.compile(
    r"<script[^>]*\bsrc=[\"']https://www\.googletagmanager\.com/[^>]*>\s*</script>"
    r"|<script[^>]*>(?:(?!</script>)[\s\S]){0,400}?\bdataLayer\b(?:(?!</script>)[\s\S]){0,2000}?</script>",
    re.IGNORECASE,
)
_HOST = "googletagmanager.com"


@dataclass(frozen=True)
class Allure:
    """An `allure` command that runs and reports its version."""

    command: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return f"Allure {'.'.join(map(str, self.version))} ({self.command})"

    @property
    def has_metrics(self) -> bool:
        return self.version >= METRICS_SINCE


def find_allure(places: Sequence[Path]) -> Allure | None:
    """Return the best `allure` command: $PINET_ALLURE if set, else from ``node_modules`` of these folders and PATH.

    3.17 or later is best because it shows metrics; then 3, then 2. Raises ConfigError if $PINET_ALLURE does not run.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = _ask(named)
        if found is None:
            raise ConfigError(f"{VARIABLE}={named} does not report its version; expected the path of an allure command")
        return found
    commands = [str(place / "node_modules" / ".bin" / "allure") for place in places]
    commands += filter(None, [shutil.which("allure")])
    answers = []
    for command in dict.fromkeys(commands):
        answer = _ask(command)
        if answer is not None and answer.has_metrics:
            # Do not try the rest: Allure 2 takes seconds to print its version.
            return answer
        answers += [answer] if answer is not None else []
    return max(answers, key=lambda answer: answer.version, default=None)


def _ask(command: str) -> Allure | None:
    try:
        done = _call([command, "--version"], _VERSION_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout)
    return Allure(command, tuple(map(int, match.groups()))) if match and done.returncode == 0 else None  # type: ignore[arg-type]


def _call(words: Sequence[str], timeout_s: float, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command. The virtual environment's own node is first on PATH, because the system's may be too old."""
    path, own = os.environ.get("PATH", os.defpath), Path(sys.prefix) / "bin"
    if sys.prefix != sys.base_prefix and (own / "node").exists():
        path = os.pathsep.join([str(own), path])
    # Allure 2 accepts only `true`.
    environment = {**os.environ, "PATH": path, "ALLURE_NO_ANALYTICS": "true"}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def generate(allure: Allure, results: Path, history: str | dict[str, str], name: str, out: Path, single: bool) -> None:
    """Generate the report of a folder of results at ``out``: a file if ``single``, else a folder.

    ``history`` is the text of ``history.jsonl`` (Allure 3) or the files of ``history/`` (Allure 2). The old report at
    ``out`` stays until the new one is complete. Raises ConfigError.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pinet-report-", dir=out.parent) as folder:
        work = Path(folder)
        # Always generate into an empty folder: Allure 3 keeps an old page and puts the new one beneath it.
        made = work / "report"
        if isinstance(history, str):
            options = _prepare_3(results, history, name, made, single)
        else:
            options = _prepare_2(results, history, name, made, single)
        _run(allure, [allure.command, "generate", str(results), *options], work)
        page = made / "index.html"
        if not page.is_file():
            raise ConfigError(f"{allure} made no index.html from {results}; run by hand: {allure.command} generate")
        for path in made.rglob("*.html"):
            _strip(path)
        _replace(page if single else made, out)


def _prepare_3(results: Path, history: str, name: str, made: Path, single: bool) -> list[str]:
    """Write history and configuration beside ``made``, and return the options for Allure 3."""
    work = made.parent
    (work / "history.jsonl").write_text(history, encoding="utf-8")
    options: dict[str, object] = {
        "singleFile": single, "reportLanguage": "en", "groupBy": ["epic", "feature", "story"],
    }  # fmt: skip
    config = {
        "name": name,
        "output": str(made),
        "historyPath": str(work / "history.jsonl"),
        # The history is derived each time. Appending would count this run twice.
        "appendHistory": False,
        "categories": {"rules": categories()},
        "performance": performance(results),
        "plugins": {"awesome": {"options": options}},
    }
    (work / "allurerc.json").write_text(json.dumps(config), encoding="utf-8")
    return ["--config", str(work / "allurerc.json"), "--report-name", name]


def performance(results: Path) -> dict[str, object]:
    """Return names and units of all metrics in a folder of results, for Allure's configuration.

    Allure documents this place. 3.18 also reads them from the metric files, which is undocumented.
    """
    metrics: dict[str, object] = {}
    groups: dict[str, object] = {}
    for path in sorted(results.glob("*-perf.json")):
        try:
            entries = parse_json(path.read_text(encoding="utf-8"))
            for entry in entries if isinstance(entries, list) else ():
                metrics[entry["key"]] = {name: entry[name] for name in ("title", "unit", "better", "group")}
                groups[entry["group"]] = {"title": entry["groupTitle"]}
        except (OSError, ValueError, KeyError, TypeError):
            # A metric file of another plugin.
            continue
    return {"metrics": metrics, "groups": groups}


def _prepare_2(results: Path, history: dict[str, str], name: str, made: Path, single: bool) -> list[str]:
    """Write the history into a second folder of results, so that the user's folder does not change.

    Allure 2 adds up the histories of several folders, so nothing is written if the run left one with its results.
    """
    options = ["-o", str(made), "--name", name, *(["--single-file"] if single else [])]
    if (results / "history").is_dir():
        return options
    own = made.parent / "results" / "history"
    own.mkdir(parents=True)
    for file, text in history.items():
        (own / file).write_text(text, encoding="utf-8")
    return [str(own.parent), *options]


def _run(allure: Allure, words: Sequence[str], work: Path) -> None:
    try:
        done = _call(words, _GENERATE_TIMEOUT_S, work)
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"{allure} did not end within {_GENERATE_TIMEOUT_S:g} s; use fewer results, or --page"
        ) from None
    except OSError as error:
        raise ConfigError(f"{allure} cannot be run: {error.strerror}") from None
    if done.returncode:
        last = last_line(done.stderr, done.stdout) or "it printed nothing"
        raise ConfigError(
            f"{allure} failed with exit code {done.returncode}: {last}; pinet report --page needs no Allure"
        )


def without_analytics(page: str) -> str:
    """Return the page without the Google Analytics scripts."""
    return _ANALYTICS.sub("", page)


def _strip(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if _HOST not in text:
        return
    stripped = without_analytics(text)
    if _HOST in stripped:
        raise ConfigError(f"{path.name} still contacts {_HOST}: this version of Allure is not supported; use --page")
    path.write_text(stripped, encoding="utf-8")


def _replace(made: Path, out: Path) -> None:
    """Move the report into place: a file in one step, a folder in two. Raises ConfigError."""
    if made.is_file() and not out.is_dir():
        with writing(out, "-o"):
            write_file(out, [made.read_bytes()])
        return
    out = out.resolve()
    if out.exists() and not (out.is_dir() and (any(out.glob("*.html")) or not any(out.iterdir()))):
        raise ConfigError(f"{out} exists and is not the folder of a report; choose another with -o")
    old = made.parent.parent / "old" if made.is_dir() else made.parent / "old"
    if out.exists():
        out.rename(old)
    made.rename(out)
