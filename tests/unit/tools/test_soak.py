"""``make soak``: statements are run, counted and stored, however the runner ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tools.soak.page import page
from tools.soak.process import PLUGINS
from tools.soak.record import load

ROOT = Path(__file__).parents[3]
FOLDER = Path("docs") / "contributing"
STATEMENTS = '''
"""Small numbers."""

import pytest

@pytest.mark.soak("Two and two are {four}.", runs=2)
@pytest.mark.parametrize("four", [4])
def test_sum(four):
    assert 2 + 2 == four

@pytest.mark.soak("At most 1 of 3 numbers is above 0.", runs=3, allowed=1)
def test_number(soak_number):
    assert soak_number <= 0, f"{soak_number} | is above"

@pytest.mark.soak("At most 6 of 600 draws fail.", runs=600, allowed=6)
def test_counted(soak_count):
    soak_count(600, 5, "5 draws of 600")
'''


class Repository:
    """A folder with statements, and the runner as a process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "tests" / "soak").mkdir(parents=True)
        (root / "pytest.ini").write_text("[pytest]\n")

    def write(self, text: str) -> None:
        (self.root / "tests" / "soak" / "test_it.py").write_text(text)

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tools.soak", f"--root={self.root}", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.argv(*words), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*words), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return runs and failures of each statement."""
        return {one.statement: (one.ran, one.failures) for one in load(self.root / FOLDER / "soak.json")}

    def states(self) -> dict[str, str]:
        return {one.statement: one.state for one in load(self.root / FOLDER / "soak.json")}

    def page(self) -> str:
        return (self.root / FOLDER / "soak.md").read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_each_statement_is_run_as_often_as_it_says_and_its_failures_are_counted(repository: Repository) -> None:
    repository.write(STATEMENTS)
    done = repository.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert repository.counts() == {
        "Two and two are 4.": (2, 0),
        "At most 1 of 3 numbers is above 0.": (3, 2),
        "At most 6 of 600 draws fail.": (600, 5),
    }
    assert list(repository.states().values()) == ["held", "not held", "held"]
    text = repository.page()
    assert "| Small numbers | 2 | 0 | 1 | 0 | 605 |" in text
    assert (
        "- Not held (2 of 3 failed, 1 allowed): At most 1 of 3 numbers is above 0. `AssertionError: 2 | is above"
        in text
    )
    assert text == page(load(repository.root / FOLDER / "soak.json"))
    # A complete statement is not run again.
    assert "run 1" not in repository.run().stdout


def test_a_choice_leaves_the_others_not_yet_run_and_again_begins_anew(repository: Repository) -> None:
    repository.write(STATEMENTS)
    assert repository.run("-k", "two AND").returncode == 0
    assert list(repository.states().values()) == ["held", "not yet run", "not yet run"]
    listed = repository.run("--list").stdout
    assert "held, 2 of 2 runs: Two and two are 4.\n    tests/soak/test_it.py::test_sum[4]" in listed
    assert "run 1 of 2: passed" in repository.run("-k", "two and", "--again").stdout
    assert repository.counts()["Two and two are 4."] == (2, 0)
    assert repository.run("-k", "nothing").returncode == 2


def test_another_sentence_was_never_run_and_one_without_a_test_is_gone(repository: Repository) -> None:
    repository.write(STATEMENTS)
    repository.run("-k", "two and", "-k", "600")
    changed = STATEMENTS.replace("Two and two are", "Twice two is").replace("At most 6 of", "At most 7 of")
    repository.write(changed.replace("allowed=6", "allowed=7"))
    assert repository.run("--page").returncode == 0
    assert repository.counts() == {
        "Twice two is 4.": (0, 0),
        "At most 1 of 3 numbers is above 0.": (0, 0),
        "At most 7 of 600 draws fail.": (0, 0),
    }
    assert "| Small numbers | 0 | 0 | 0 | 3 | 0 | - |" in repository.page()
    assert repository.page().endswith("\n\nAll statements that ran held.\n")


def test_runs_at_another_commit_stay(repository: Repository) -> None:
    def commit(text: str) -> str:
        repository.write(text)
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        for words in (["add", "tests", "pytest.ini"], [*identity, "commit", "-qm", "it"]):
            subprocess.run(["git", *words], cwd=repository.root, check=True)
        name = ["git", "rev-parse", "--short=7", "HEAD"]
        return subprocess.run(name, cwd=repository.root, check=True, capture_output=True, text=True).stdout.strip()

    subprocess.run(["git", "init", "-q"], cwd=repository.root, check=True)
    (repository.root / ".gitignore").write_text("__pycache__\n.pinet\n.gitignore\n")
    first = commit(STATEMENTS)
    repository.run("-k", "two and")
    second = commit(STATEMENTS.replace("runs=2", "runs=3"))
    repository.run("-k", "two and")
    (one, *_) = load(repository.root / FOLDER / "soak.json")
    assert [(result.commit, result.runs) for result in one.results] == [(first, 2), (second, 1)]
    # Uncommitted changes are noted.
    repository.write(STATEMENTS.replace("runs=2", "runs=4"))
    repository.run("-k", "two and")
    assert load(repository.root / FOLDER / "soak.json")[0].results[-1].commit == f"{second} with changes"


SLEEPS = """
import subprocess
import pytest

@pytest.mark.soak("It comes back.", runs=3)
def test_sleep(soak_number, tmp_path_factory):
    if soak_number == 1:
        # One child in our process group, and one in a session of its own.
        children = [subprocess.Popen(["sleep", "300"], start_new_session=own) for own in (False, True)]
        with open("children", "w") as file:
            file.write(" ".join(str(child.pid) for child in children) + " .")
        children[0].wait()
"""


def children(repository: Repository) -> list[int]:
    """Return the processes of the run that sleeps."""
    file = repository.root / "children"
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text().endswith(".")):
        assert time.monotonic() < deadline, "the second run did not begin"
        time.sleep(0.05)
    return [int(word) for word in file.read_text().split()[:-1]]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_runner_keeps_what_is_complete_and_leaves_no_child(
    repository: Repository, number: signal.Signals
) -> None:
    repository.write(SLEEPS)
    process = repository.start()
    pids = children(repository)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "complete runs are kept" in output
    assert "Traceback" not in output
    assert repository.counts() == {"It comes back.": (1, 0)}
    assert repository.states() == {"It comes back.": "held so far"}
    assert not any(map(alive, pids))
    # The interrupted run is repeated.
    repository.write(SLEEPS.replace("soak_number == 1", "False"))
    assert repository.run().returncode == 0
    assert repository.counts() == {"It comes back.": (3, 0)}


def test_a_runner_that_is_killed_has_kept_what_was_complete(repository: Repository) -> None:
    repository.write(SLEEPS)
    process = repository.start()
    pids = children(repository)
    process.kill()
    process.communicate()
    try:
        assert repository.counts() == {"It comes back.": (1, 0)}
        assert json.loads((repository.root / FOLDER / "soak.json").read_text())
    finally:
        # Processes that could not be ended; afterwards pytest ends.
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def test_a_run_that_does_not_end_is_a_failure_and_a_run_that_breaks_is_none(repository: Repository) -> None:
    text = SLEEPS.replace("runs=3", "minutes=0.05").replace("soak_number == 1", "True")
    repository.write(text)
    done = repository.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert repository.counts() == {"It comes back.": (1, 1)}
    assert "the test did not end within 0.05 minutes" in repository.page()
    file = repository.root / "children"
    assert not any(map(alive, map(int, file.read_text().split()[:-1] if file.exists() else [])))
    mark = '@pytest.mark.soak("It lives.")'
    repository.write(f"import os, pytest\n\n{mark}\ndef test_it():\n    os.kill(os.getpid(), 9)\n")
    done = repository.run()
    assert done.returncode == 1
    assert "broken" in done.stdout
    assert "could not be run here: It lives." in done.stdout
    assert repository.states() == {"It lives.": "not yet run"}


def test_mistakes_in_statements_are_found_before_anything_runs(repository: Repository) -> None:
    mark = '@pytest.mark.soak("The same.")\ndef test_{}():\n    pass\n'
    repository.write(f"import pytest\n\n{mark.format('a')}\n{mark.format('b')}")
    assert "two tests make the same statement: The same." in repository.run().stderr
    repository.write("def test_plain():\n    pass\n")
    done = repository.run()
    assert done.returncode == 1
    assert "test_plain is no statement: it lacks @pytest.mark.soak" in done.stderr
    repository.write('import pytest\n\n@pytest.mark.soak("It is.", run=2)\ndef test_it():\n    pass\n')
    assert "unexpected keyword argument 'run'" in repository.run().stderr


def test_the_page_of_this_repository_has_every_statement_and_is_what_its_results_give(tmp_path: Path) -> None:
    known = load(ROOT / FOLDER / "soak.json")
    assert (ROOT / FOLDER / "soak.md").read_text() == page(known)
    file = tmp_path / "statements.json"
    argv = [sys.executable, "-m", "pytest", *PLUGINS, "tests/soak", "--collect-only", "-q"]
    subprocess.run([*argv, f"--soak-statements={file}"], cwd=ROOT, check=True, timeout=120)
    collected: list[dict[str, Any]] = json.loads(file.read_text())
    made = [(one["statement"], one["test"], one["runs"], one["allowed"]) for one in collected]
    assert [(one.statement, one.test, one.runs, one.allowed) for one in known] == made, "run make soak ARGS=--page"
