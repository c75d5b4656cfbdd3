"""The `allure` command: found, asked for its version, and run; and the report that it makes, made fit to be kept."""

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
from pytest_pinet.report.allure.verdicts import categories

# What `make report` installs, and the oldest with metrics.
TESTED = ("3.18.0", "2.46.1")
METRICS_SINCE = (3, 17)
VARIABLE = "PINET_ALLURE"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_VERSION_TIMEOUT_S = 60.0
# 5,000 results with their evidence took 31 s.
_GENERATE_TIMEOUT_S = 600.0
# Allure's own pages ask Google Analytics when they are opened: an async script, and one that configures it.
_ANALYTICS = re.compile(
    r"<script[^>]*\bsrc=[\"']https://www\.googletagmanager\.com/[^>]*>\s*</script>"
    r"|<script[^>]*>(?:(?!</script>)[\s\S]){0,400}?\bdataLayer\b(?:(?!</script>)[\s\S]){0,2000}?</script>",
    re.IGNORECASE,
)
_HOST = "googletagmanager.com"


@dataclass(frozen=True)
class Allure:
    """An `allure` command that answers."""

    command: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return f"Allure {'.'.join(map(str, self.version))} ({self.command})"

    @property
    def has_metrics(self) -> bool:
        return self.version >= METRICS_SINCE


def find_allure(places: Sequence[Path]) -> Allure | None:
    """The best one: of $PINET_ALLURE, ``node_modules`` of these folders, and PATH. Raises ConfigError.

    3.17 or later is best, since it shows numbers; then 3, then 2. A named one must answer.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = _ask(named)
        if found is None:
            raise ConfigError(f"{VARIABLE}={named} does not tell its version; expected the path of an allure command")
        return found
    commands = [str(place / "node_modules" / ".bin" / "allure") for place in places]
    commands += filter(None, [shutil.which("allure")])
    answers = []
    for command in dict.fromkeys(commands):
        answer = _ask(command)
        if answer is not None and answer.has_metrics:
            # Allure 2 takes seconds to tell its version.
            return answer
        answers += [answer] if answer is not None else []
    return max(answers, key=lambda answer: answer.version, default=None)


def _ask(command: str) -> Allure | None:
    try:
        done = subprocess.run(
            [command, "--version"],
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout)
    return Allure(command, tuple(map(int, match.groups()))) if match and done.returncode == 0 else None  # type: ignore[arg-type]


def _environment() -> dict[str, str]:
    """With the node of our own environment, where that came from PyPI, first on PATH: the system's is older then."""
    path, own = os.environ.get("PATH", os.defpath), Path(sys.prefix) / "bin"
    if sys.prefix != sys.base_prefix and (own / "node").exists():
        path = os.pathsep.join([str(own), path])
    # `true` is the only value that Allure 2 takes.
    return {**os.environ, "PATH": path, "ALLURE_NO_ANALYTICS": "true"}


def generate(allure: Allure, results: Path, history: str | dict[str, str], name: str, out: Path, single: bool) -> None:
    """Make the report of a folder of results at ``out``: one file where ``single``, else a folder.

    ``history`` is the text of ``history.jsonl`` (Allure 3) or the files of ``history/`` (Allure 2). Whatever lay at
    ``out`` is there until the new one is complete. Raises ConfigError.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pinet-report-", dir=out.parent) as folder:
        work = Path(folder)
        # Always an empty folder: Allure 3 leaves an old page in place and puts the new one beneath it.
        made = work / "report"
        if isinstance(history, str):
            _run_3(allure, results, history, name, made, work, single)
        else:
            _run_2(allure, results, history, name, made, work, single)
        page = made / "index.html"
        if not page.is_file():
            raise ConfigError(f"{allure} made no index.html of {results}; run it by hand: {allure.command} generate")
        for path in made.rglob("*.html"):
            _strip(path)
        _replace(page if single else made, out)


def _run_3(allure: Allure, results: Path, history: str, name: str, made: Path, work: Path, single: bool) -> None:
    (work / "history.jsonl").write_text(history, encoding="utf-8")
    options: dict[str, object] = {
        "singleFile": single, "reportLanguage": "en", "groupBy": ["epic", "feature", "story"],
    }  # fmt: skip
    config = {
        "name": name,
        "output": str(made),
        "historyPath": str(work / "history.jsonl"),
        # It is derived anew each time; to append would count this run twice.
        "appendHistory": False,
        "categories": {"rules": categories()},
        "performance": performance(results),
        "plugins": {"awesome": {"options": options}},
    }
    (work / "allurerc.json").write_text(json.dumps(config), encoding="utf-8")
    words = [allure.command, "generate", str(results), "--config", str(work / "allurerc.json")]
    _run(allure, [*words, "--report-name", name], work)


def performance(results: Path) -> dict[str, object]:
    """Names and units of the metrics of a folder of results, for the configuration, where Allure documents them.

    The files of the metrics themselves have the same; 3.18 reads it there, too, and undocumented.
    """
    metrics: dict[str, object] = {}
    groups: dict[str, object] = {}
    for path in sorted(results.glob("*-perf.json")):
        try:
            for entry in json.loads(path.read_text(encoding="utf-8")):
                metrics[entry["key"]] = {name: entry[name] for name in ("title", "unit", "better", "group")}
                groups[entry["group"]] = {"title": entry["groupTitle"]}
        except (OSError, ValueError, KeyError, TypeError):
            # Another plugin's.
            continue
    return {"metrics": metrics, "groups": groups}


def _run_2(
    allure: Allure, results: Path, history: dict[str, str], name: str, made: Path, work: Path, single: bool
) -> None:
    # A second folder of results, so that the user's stays as it is.
    own = work / "results" / "history"
    own.mkdir(parents=True)
    for file, text in history.items():
        (own / file).write_text(text, encoding="utf-8")
    words = [allure.command, "generate", str(results), str(own.parent), "-o", str(made), "--name", name]
    _run(allure, [*words, *(["--single-file"] if single else [])], work)


def _run(allure: Allure, words: Sequence[str], work: Path) -> None:
    try:
        done = subprocess.run(
            words,
            cwd=work,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=_GENERATE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"{allure} did not end within {_GENERATE_TIMEOUT_S:g} s; give it less, or use --page"
        ) from None
    except OSError as error:
        raise ConfigError(f"{allure} cannot be run: {error.strerror}") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise ConfigError(f"{allure} failed with exit code {done.returncode}: {last}; --page does without it")


def without_analytics(page: str) -> str:
    """The page without the scripts that tell Google that it was opened."""
    return _ANALYTICS.sub("", page)


def _strip(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if _HOST not in text:
        return
    stripped = without_analytics(text)
    if _HOST in stripped:
        raise ConfigError(
            f"{path.name} still asks {_HOST}: this version of Allure is not known; --page does without it"
        )
    path.write_text(stripped, encoding="utf-8")


def _replace(made: Path, out: Path) -> None:
    """Put it in place in one step where the file system can (a file), else in two."""
    if made.is_file() and not out.is_dir():
        made.replace(out)
        return
    old = made.parent.parent / "old" if made.is_dir() else made.parent / "old"
    if out.exists():
        out.rename(old)
    made.rename(out)
