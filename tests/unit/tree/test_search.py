"""A search goes on where it was killed, and keeps what it skipped. Values are simulated: genet loses 2 % of goodput."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.tree.search import SearchStep
from tests.support.console_blocks import ROOT
from tests.support.simulated_search import BROKEN, COMMITS, CULPRIT, simulated_search


def test_the_commit_that_lost_2_percent_in_genet_is_found(tmp_path: Path) -> None:
    said: list[str] = []
    one = simulated_search(tmp_path / "a.jsonl", show=said.append)
    found = one.run()
    assert found is not None
    assert found.best()[0] == [CULPRIT.id]
    skipped = {step.skipped for step in one.steps} - {""}
    assert skipped <= BROKEN
    assert len([step for step in one.steps if step.skipped]) == len(skipped)
    assert said[0] == "gating the bad commit against the good one"
    assert said[1].startswith("step 2: ")
    assert said[1].endswith(" boots left")


def test_the_culprit_is_gated_once_against_its_parent_also_by_two_starts(tmp_path: Path) -> None:
    one = simulated_search(tmp_path / "a.jsonl")
    one.run()
    gate = one.gate_of(CULPRIT.id)
    assert gate == one.steps[-1]
    again = simulated_search(tmp_path / "a.jsonl", boots=lambda commit: pytest.fail(commit))
    again.run()
    assert again.gate_of(CULPRIT.id) == gate


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.INCONCLUSIVE])
def test_boots_of_a_gate_that_does_not_call_the_culprit_slower_count_and_the_search_goes_on(
    tmp_path: Path, verdict: Verdict
) -> None:
    one = simulated_search(tmp_path / "a.jsonl", lucky=3, verdict=verdict)
    found = one.run()
    assert found is not None
    assert [step.gated for step in one.steps if step.gated] == [COMMITS[19].id, CULPRIT.id]
    assert (found.best()[0], found.is_certain) == ([CULPRIT.id], True)


def test_a_search_that_an_error_ended_goes_on_and_ends_as_a_whole_one(tmp_path: Path) -> None:
    whole = simulated_search(tmp_path / "whole.jsonl")
    whole.run()
    boots = 0

    def fail(_commit: str) -> None:
        nonlocal boots
        boots += 1
        if boots % 10 == 0:
            raise LabError("the switch is down")

    for _ in range(20):
        part = simulated_search(tmp_path / "part.jsonl", fail)
        try:
            part.run()
            break
        except LabError:
            continue
    assert part.steps == whole.steps
    assert boots > len(whole.steps)


KILLED = """
import os, signal
from pathlib import Path
from tests.support.simulated_search import simulated_search
made = []
def boot(commit):
    made.append(commit)
    if len(made) == 12:
        with open({file!r}, "ab") as file:
            file.write(b'\\n{{"values": [["0')
        os.kill(os.getpid(), signal.SIGKILL)
simulated_search(Path({file!r}), boot).run()
"""


def test_a_search_that_was_killed_goes_on_behind_its_last_whole_step(tmp_path: Path) -> None:
    whole = simulated_search(tmp_path / "whole.jsonl")
    whole.run()
    file = tmp_path / "killed.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(file=str(file))], cwd=ROOT, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert file.read_bytes().endswith(b'{"values": [["0')
    again = simulated_search(file)
    again.run()
    assert again.steps == whole.steps


def test_ends_that_do_not_differ_are_measured_again_by_the_next_start(tmp_path: Path) -> None:
    one = simulated_search(tmp_path / "a.jsonl")
    one.ends = lambda: SearchStep(boots=2)
    assert one.run() is None
    assert not list(one.journal.steps())


@pytest.mark.parametrize("weighted", [True, False])
def test_commits_of_the_driver_are_tried_first(tmp_path: Path, weighted: bool) -> None:
    one = simulated_search(tmp_path / "a.jsonl", in_driver=lambda _, name: weighted and name == "a.c")
    found = one.run()
    assert found is not None
    first = one.steps[1].values[0][0] if one.steps[1].values else one.steps[1].skipped
    if weighted:
        # Six of 32 commits have nearly all of the probability.
        assert {COMMITS[14].id, COMMITS[13].id, COMMITS[15].id, COMMITS[19].id} & {first}
    else:
        assert first == COMMITS[15].id
