"""Runs the steps of a job of a forge, as its runner would: only what the forge itself hosts is replaced.

Replaced are its variables and environment files, its artifacts (folders), its own actions, and its API (a server on the
loopback). Steps named Install are left out: the pinet of this environment is there instead.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

FOLDER = Path(__file__).parents[2] / "docs/how-to/pull-requests"
PINET = Path(sys.executable).parent / "pinet"
_TIMEOUT_S = 120.0


def git(folder: Path, *words: str) -> str:
    """Run git, as one fixed person."""
    person = ["-c", "user.name=A Person", "-c", "user.email=person@example.org", "-c", "init.defaultBranch=main"]
    argv = ["git", "-C", str(folder), *person, *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S).stdout.strip()


def commit(repository: Path, files: Mapping[str, str], subject: str = "a change") -> str:
    """Commit these files, and return the commit."""
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", subject)
    return git(repository, "rev-parse", "HEAD")


@dataclass
class Runner:
    """A runner of a forge with an empty work folder. ``artifacts`` has a folder for each artifact.

    ``pinet`` may be another program, such as one that does not gate.
    """

    folder: Path
    artifacts: Path
    repository: Path | None = None
    pinet: Path = PINET
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.work, self.temporary = self.folder / "work", self.folder / "temporary"
        (self.temporary / "pinet/bin").mkdir(parents=True)
        self.work.mkdir()
        (self.temporary / "pinet/bin/pinet").symlink_to(self.pinet)

    def shell(self, script: str, environment: Mapping[str, str]) -> int:
        """Run a script as the runners do. Return its exit code; its output is in ``log``."""
        file = self.folder / "script.sh"
        file.write_text(script)
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        path = f"{self.temporary / 'pinet/bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(file)],
            cwd=self.work,
            env={**kept, "PATH": path, **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        self.log = done.stdout
        return done.returncode


def github(runner: Runner, workflow: str, job: str, context: Mapping[str, str]) -> tuple[int, dict[str, str]]:
    """Run a job of a workflow. Return the exit code of its first failed step, and the outputs of the job.

    ``context`` has the values of expressions, such as ``matrix.board``. Any other expression is a KeyError.
    """
    whole = yaml.safe_load((FOLDER / workflow).read_text(encoding="utf-8"))
    output, summary = runner.folder / "output", runner.folder / "summary"
    own = {"runner.temp": str(runner.temporary), **context}
    always = {
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_PATH": str(runner.folder / "path"),
        "GITHUB_WORKSPACE": str(runner.work),
        "RUNNER_TEMP": str(runner.temporary),
    }
    failed = 0
    for step in whole["jobs"][job]["steps"]:
        if failed and step.get("if") != "always()":
            continue
        values = {key: _filled(str(text), own) for key, text in {**step.get("with", {}), **step.get("env", {})}.items()}
        if "uses" in step:
            _action(runner, step["uses"].partition("@")[0], values)
        elif step["name"] != "Install":
            assert "${{" not in step["run"], "the text of an expression would become part of the script"
            failed = failed or runner.shell(step["run"], {**always, **values})
    lines = output.read_text().splitlines() if output.exists() else []
    return failed, dict(line.split("=", 1) for line in lines)


def _filled(text: str, context: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: context[found[1]], text)


def _action(runner: Runner, name: str, values: Mapping[str, str]) -> None:
    """Do what an action of GitHub does."""
    if name == "actions/checkout":
        assert values["persist-credentials"] == "False"
        git(runner.work, "init", "-q")
        depth = f"--depth={values['fetch-depth']}"
        git(runner.work, "fetch", "-q", depth, f"file://{runner.repository}", "refs/pull/7/merge")
        git(runner.work, "checkout", "-q", "FETCH_HEAD")
    elif name == "actions/upload-artifact":
        if Path(values["path"]).exists():
            shutil.copytree(values["path"], runner.artifacts / values["name"])
    elif name == "actions/download-artifact":
        shutil.copytree(runner.artifacts, runner.work / values["path"], symlinks=True)
    else:
        raise AssertionError(f"unknown action {name}")


def gitlab(runner: Runner, job: str, variables: Mapping[str, str]) -> int:
    """Run the script of a job, with the variables of the job and its templates. Return the exit code."""
    whole = yaml.safe_load((FOLDER / "gitlab-exact.yml").read_text(encoding="utf-8"))
    own = whole[job]
    environment = {"CI_PROJECT_DIR": str(runner.work), **own.get("variables", {}), **variables}
    status = runner.shell("\n".join(own["script"]), {key: str(value) for key, value in environment.items()})
    for path in own.get("artifacts", {}).get("paths", ()):
        if (runner.work / path).exists():
            shutil.copy(runner.work / path, runner.artifacts)
    return status


@dataclass
class Api:
    """The API of a forge: fixed answers, by path; ``read`` are the requests that only read, ``sent`` the others."""

    answers: Mapping[str, Any]
    url: str = ""
    read: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    sent: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def api(answers: Mapping[str, Any]) -> Iterator[Api]:
    """Yield a server whose answers are JSON, or octets. Any other path is not found."""
    found = Api(answers)

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            if self.command == "GET":
                found.read.append((parts.path, dict(parse_qsl(parts.query))))
            else:
                found.sent.append((self.command, parts.path, json.loads(self.rfile.read(length))))
            answer = found.answers.get(parts.path) if self.command == "GET" else {}
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        found.url = f"http://127.0.0.1:{server.server_port}"
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
