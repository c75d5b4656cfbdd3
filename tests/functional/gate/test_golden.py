"""Whole runs of pytest and `pinet` on the virtual lab, frozen: what they print, write and end with.

The traffic is replayed (tests.support.replay_tool), so the same run gives the same bytes on any machine and day.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pytest_pinet.ab import boots, build_run
from pytest_pinet.evidence import other_work
from tests.support import golden_project, replay_tool
from tests.support.gate_project import GateLab, Project
from tests.support.golden import FOLDER, Masks, check_all, codes

NODES = ("pi3b-1", "pi3b-2", "pi4b-1", "pi4b-2", "cm4-1", "pi5-1")
# Values that replace the masks when a golden file is read as results.
PLAIN = {
    "<time>": '"2026-11-23T12:00:00+00:00"',
    "<duration>": "1.0",
    "<counter>": "0",
    "<skew>": "0.0",
    "<id>": '"20261123-120000"',
    "<version>": '"1.0"',
}
# Disable a plugin that costs half a second per run.
PLUGINS = ("-p", "no:allure_pytest")
# A run in this process cannot start labgrid's plugin again, nor rewrite the modules that are imported already.
IN_PROCESS = (*PLUGINS, "-p", "no:labgrid", "-Wignore:Module already imported")
REPLACED = (
    (other_work, "_read_here"),
    (other_work, "LEAST_WINDOW_S"),
    (build_run, "connections_per_boot"),
    (boots, "MadeBoot"),
)
REPO = Path(__file__).parents[3]
BASELINE = """
baselines:
- id: pi3b:onboard/pair/tcp-P6-tx
  value: 94 Mbit/s
  runs: [93.8 Mbit/s, 93.9 Mbit/s, 94 Mbit/s, 94.1 Mbit/s, 94.2 Mbit/s]
  build: {uname: "6.12"}
  date: 2026-11-01
  reason: what such a link carries
  sessions: [{day: 2026-10-31, runs: 5}]
- id: pi4b:onboard/pair/tcp-P1-tx
  value: 850 Mbit/s
  runs: [849.8 Mbit/s, 849.9 Mbit/s, 850 Mbit/s, 850.1 Mbit/s, 850.2 Mbit/s]
  build: {uname: "6.12"}
  date: 2026-11-01
  reason: before the driver was mended
  sessions: [{day: 2026-10-29, runs: 2}, {day: 2026-10-30, runs: 2}, {day: 2026-10-31}]
"""

# These commands measure, in their own process.
MEASURING = (
    ("test_kinds.py", "-k", "test_pass", "--pinet-require=2"),
    ("gate", "new.yaml", "--against=accepted", "--lab=lab.yaml", "test_builds.py", "-k", "test_accepted"),
    ("gate", "new.yaml", "--against=accepted", "--lab=lab.yaml", "test_builds.py", "-k", "test_change"),
)
# For pytest, exit codes that no other test has. For `pinet`, errors without a lab, or with a lab that answers.
EXIT_CODES = (
    ("pytest", *MEASURING[0]),
    ("pytest", "test_kinds.py", "-k", "no_such_test"),
    ("pytest", "test_kinds.py", "--pinet-min=lots"),
    ("pytest", "test_interrupted.py"),
    ("pinet", "--version"),
    ("pinet", "chek"),
    ("pinet", "check", "lab.yaml"),
    ("pinet", "check", "no-such-lab.yaml"),
    ("pinet", "check", "mistaken.yaml"),
    ("pinet", "matrix", "--lab=lab.yaml"),
    ("pinet", "summary", "all.json"),
    ("pinet", "summary", "nowhere"),
    ("pinet", "compare", "all.json", "all.json", "-k", "tcp-P1-tx"),
    ("pinet", "compare", "all.json", "slower.json"),
    ("pinet", "compare", "all.json", "other.json"),
    ("pinet", "compare", "all.json", "nowhere"),
    ("pinet", "compare", "published", "all.json"),
    ("pinet", "compare", "published", "all.json", "--complete"),
    ("pinet", "accept", "--lab=lab.yaml", "--reason=golden", "--dry-run"),
    ("pinet", "accept", "--lab=lab.yaml", "--reason="),
    ("pinet", "doctor", "--lab=lab.yaml", "no-such-node"),
    ("pinet", "selftest", "--lab=lab.yaml", "no-such-link"),
    *(("pinet", *words) for words in MEASURING[1:]),
    ("pinet", "gate", "no-such-build.yaml", "--lab=lab.yaml", "test_builds.py"),
    ("pinet", "gate", "no-such-build.yaml", "--bisect", "--lab=lab.yaml", "test_builds.py"),
    ("pinet", "gate", "new.yaml", "--bisect", "--lab=no-such-lab.yaml", "test_builds.py"),
    ("pinet", "gate", "new.yaml", "--lab=unreachable.yaml", "test_builds.py"),
    ("pinet", "gate", "new.yaml", "--lab=lab.yaml", "test_interrupted.py"),
)


class GoldenProject(Project):
    """A project that measures replayed traffic on the running lab."""

    def __init__(self, folder: Path, lab: GateLab) -> None:
        super().__init__(folder, lab)
        replay_tool.install(folder / "site")
        self.lab_file = folder / "lab.yaml"
        keys = "  figures: emulated\n  traffic_tool: replay\n  http_tool: replay\n"
        self.lab_file.write_text(lab.file.read_text().replace("  launcher: virtual\n  scale: 1 ", f"{keys}  # "))
        self.paths = {"project": folder, "repo": REPO}
        self.masks = Masks(self.paths)
        files = {"test_kinds.py": golden_project.KINDS, "test_builds.py": golden_project.CHANGE}
        for name, text in {**files, **golden_project.BUILDS, "replay.yaml": golden_project.REPLAY}.items():
            self.write(name, text)
        self.write("conftest.py", golden_project.CONFTEST)
        self.write("test_interrupted.py", golden_project.INTERRUPTED)
        self.write("mistaken.yaml", self.lab_file.read_text().replace("board: pi3b", "board: pi3c"))
        self.write("unreachable.yaml", self.lab_file.read_text().replace('"$LG_COORDINATOR"', "127.0.0.1:1"))
        (folder / "baselines").mkdir()
        self.write("baselines/pi.yaml", BASELINE)

    def environment(self, **more: str) -> dict[str, str]:
        # The tree under test can be on PYTHONPATH itself.
        paths = os.pathsep.join(filter(None, [str(self.path / "site"), os.environ.get("PYTHONPATH")]))
        own = {"PYTHONPATH": paths, "LAB": str(self.lab_file), **self.lab.environment}
        return super().environment(**own, **more)

    def golden_run(self, *options: str) -> pytest.RunResult:
        return self.pytest(*options, timeout_s=300, lab_file=Path("lab.yaml"))

    def in_process(self, *words: str, program: str = "pinet") -> tuple[int, str, str]:
        """Run a command in this process, through its own exit handling. Return exit code and output."""
        (script,) = entry_points(group="console_scripts", name=program)
        out, err = io.StringIO(), io.StringIO()
        environment = self.environment()
        before = dict(sys.modules)
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.path)
            patch.syspath_prepend(self.path / "site")
            patch.setattr(sys, "argv", [program, *words])
            # The conftest of the project replaces them.
            for owner, name in REPLACED:
                patch.setattr(owner, name, getattr(owner, name))
            for name in os.environ.keys() - environment.keys():
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
            try:
                code = int(script.load()() or 0)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(self.path)):
                del sys.modules[name]
        if "conftest" in before:
            sys.modules["conftest"] = before["conftest"]
        return code, out.getvalue(), err.getvalue()

    def keep_kinds(self) -> None:
        """Write the results of all kinds as files: unchanged, 10 % slower, and of other links."""
        kinds = (FOLDER / "kinds.results.json").read_text()
        for old, new in PLAIN.items():
            kinds = kinds.replace(f'"{old}"', new)
        run = json.loads(kinds)
        for result in run["results"]:
            # Only the keys of evidence are frozen, which is no valid result.
            result.pop("evidence", None)
        kinds = json.dumps(run)
        self.write("all.json", kinds)
        for result in run["results"]:
            for figure in result["directions"].values():
                figure["goodput_bps"] *= 0.9
        self.write("slower.json", json.dumps(run))
        self.write("other.json", kinds.replace("onboard", "elsewhere"))

    def ended(self, program: str, *words: str) -> tuple[str, int, str]:
        """Return the command, its exit code, and its message."""
        if words in MEASURING:
            if program == "pytest":
                done = self.golden_run(*words)
                said, code = done.stderr.str(), int(done.ret)
            else:
                process = self.pinet(*words, *PLUGINS)
                said, code = process.stderr, process.returncode
        elif program == "pytest":
            code, _, said = self.in_process("--pinet-lab=lab.yaml", *IN_PROCESS, *words, program=program)
        else:
            code, _, said = self.in_process(*words, *(IN_PROCESS if words[0] == "gate" else ()))
        lines = [line for line in said.splitlines() if line.startswith(("ERROR:", "pinet:", "Error:", "!"))]
        return f"{program} {shlex.join(words)}", code, self.masks.text(lines[0]).rstrip() if lines else ""

    def gate(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``pinet gate`` on a build with the tests in test_builds.py."""
        return self.pinet("gate", *words, "--lab=lab.yaml", "test_builds.py", *PLUGINS)


@pytest.fixture(scope="module")
def booted_lab(full_rate_lab: GateLab) -> Iterator[GateLab]:
    """Yield a lab with all nodes on, because a boot takes longer than all tests of a run."""
    full_rate_lab.switch_power(True, *NODES)
    full_rate_lab.await_boot(*NODES)
    yield full_rate_lab
    full_rate_lab.switch_power(False, *NODES)


@pytest.fixture
def project(tmp_path: Path, booted_lab: GateLab) -> GoldenProject:
    """Return a project in its own folder, so that no run sees the history of another test."""
    return GoldenProject(tmp_path, booted_lab)


def test_every_kind_of_result(project: GoldenProject) -> None:
    # With -q, because the shown progress depends on the time.
    done = project.golden_run("-q", "--junitxml=junit.xml", "test_kinds.py")
    masks = project.masks
    check_all(
        {
            "kinds.terminal.txt": masks.text(done.stdout.str()),
            "kinds.results.json": masks.json(project.results),
            "kinds.junit.xml": masks.text((project.path / "junit.xml").read_text().replace("><", ">\n<")),
        }
    )
    assert done.ret == 1
    of_one_board = [result for result in project.results["results"] if result["id"].startswith("pi3b:")]
    ways = [way for result in of_one_board for way in list(result["directions"].values())[:1]]
    ages = [one["boot_age_s"] for way in ways for one in way["connections"]]
    assert ages[0] > 0
    assert ages == sorted(ages)


def test_a_run_that_passes(project: GoldenProject) -> None:
    """With the output of -v, and a dry run of the tests that fail."""
    done = project.golden_run("-v", "test_kinds.py", "-k", "test_pass")
    dry = project.golden_run("--pinet-dry-run", "test_kinds.py", "-k", "test_fail or test_ping or test_all")
    check_all(
        {
            "pass.terminal.txt": project.masks.text(done.stdout.str()),
            "dry-run.terminal.txt": project.masks.text(dry.stdout.str()),
        }
    )
    assert (done.ret, dry.ret) == (0, 0)


def test_a_build_that_is_slower(project: GoldenProject) -> None:
    masks = project.masks
    done = project.gate("new.yaml", "--against=good.yaml", "--boots=8", "-q", "-k", "test_change")
    check_all(
        {
            "change.terminal.txt": masks.text(done.stdout),
            "change.results.json": masks.json(project.results),
            "change.summary.md": masks.text(project.in_process("summary", "--format=md")[1]),
        }
    )
    assert done.returncode == 1


def test_summaries_and_exports_of_a_run(project: GoldenProject) -> None:
    """All kinds of results, read from their file."""
    formats = {
        "summary.txt": ("summary", "all.json"),
        "matrix.txt": ("matrix", "--lab=lab.yaml"),
        "summary.md": ("summary", "all.json", "--format=md"),
        "compare.txt": ("compare", "all.json", "slower.json"),
        "openmetrics.txt": ("export", "all.json", "--format=openmetrics"),
    }
    project.keep_kinds()
    check_all({f"kinds.{name}": project.masks.text(project.in_process(*words)[1]) for name, words in formats.items()})


def test_exit_codes(project: GoldenProject) -> None:
    """Each command with its exit code, and its message if it reports an error.

    Tested elsewhere: 70, 74 and 202, after a bug or with a full disk (tests/unit/cli/test_usage_errors.py)
    and 131, with an exact board (tests/unit/cli/test_exact_gate.py).
    """
    project.keep_kinds()
    found = [project.ended(*words) for words in EXIT_CODES]
    check_all({"exit-codes.txt": codes(found)})
