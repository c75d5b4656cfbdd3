"""A build against the known-good state of real nodes, in turn: what a namespace can take are sysctls."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from gate_bench import PINET, GateLab, NewProject, Project

sys.path.append(str(Path(__file__).parents[1] / "unit"))

import build_files as made

pytestmark = pytest.mark.slow

TESTS = """
import pytest

# Paced, so that a busy machine gives the same figure each time, and so fast that a window of two segments is far too
# small on any machine.
@pytest.mark.pinet(board="pi5", nic="rtl8125")
@pytest.mark.parametrize("direction", ["tx", "rx"])
def test_paced(link, gate, direction):
    gate.tcp(link, direction=direction, bitrate="1500 Mbit/s", duration="1 s", warmup="0.3 s", min="300 Mbit/s")
"""
GOOD = "sysctls: {net.ipv4.tcp_sack: 1}\n"
# Two segments may be on their way to this node: whoever sends waits for it again and again.
NARROW = "sysctls: {net.ipv4.tcp_rmem: 4096 8192 8192}\n"
NODE = "pi5-1"


@pytest.fixture(scope="module")
def project(new_project: NewProject, gate_lab: GateLab) -> Iterator[Project]:
    yield new_project({"test_change.py": TESTS, "good.yaml": GOOD, "same.yaml": GOOD, "narrow.yaml": NARROW})
    # The gate leaves it on where it found it so.
    gate_lab.switch_power(False, NODE)


def gate(project: Project, *words: str) -> tuple[int, str]:
    """Exit code and all that was printed."""
    plugins = ("-p", "no:hypothesispytest", "-p", "no:allure_pytest")
    done = subprocess.run(
        [PINET, "gate", *words, f"--lab={project.lab.file}", *plugins],
        cwd=project.path, env=project.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr)  # noqa: T201  (pytest shows it when the test fails)
    return done.returncode, done.stdout + done.stderr


def sysctl(lab: GateLab, name: str) -> list[str]:
    return lab.pinet("exec", NODE, "--", "cat", f"/proc/sys/{name.replace('.', '/')}").split()


@pytest.fixture
def as_it_was(gate_lab: GateLab) -> Iterator[None]:
    """Whatever a build sets is taken back."""
    gate_lab.switch_power(True, NODE)
    gate_lab.await_boot(NODE)
    before = sysctl(gate_lab, "net.ipv4.tcp_rmem")
    yield
    assert sysctl(gate_lab, "net.ipv4.tcp_rmem") == before


@pytest.mark.usefixtures("as_it_was")
def test_a_build_against_itself_passes(project: Project) -> None:
    for _ in range(3):
        code, text = gate(project, "same.yaml", "--baseline=good.yaml", "-k", "rx")
        # Left open, where this host had other things to do.
        if code != 3:
            break
    assert code == 0, text
    head = project.results["change"]
    assert head["answer"] == "pass"
    assert {entry["outcome"] for entry in head["entries"]} == {"unchanged"}
    for result in project.results["results"]:
        assert [turn["side"] for turn in result["change"]["turns"]][:4] == ["A", "B", "B", "A"]


@pytest.mark.usefixtures("as_it_was")
def test_a_slower_build_fails_in_its_direction_only_and_its_setting_is_the_first_suspect(project: Project) -> None:
    code, text = gate(project, "narrow.yaml", "--baseline=running")
    assert code == 1, text
    entries = {entry["direction"]: entry for entry in project.results["change"]["entries"]}
    assert entries["tx"]["outcome"] in ("unchanged", "undecided")
    assert entries["rx"]["outcome"] == "regression"
    assert entries["rx"]["suspect"].startswith("net.ipv4.tcp_rmem: ")
    assert "narrow must not go in: 1 of 2 figures slower" in text


@pytest.mark.usefixtures("as_it_was")
def test_without_accepted_baselines_nothing_is_known(project: Project) -> None:
    code, text = gate(project, "same.yaml", "--baseline=accepted", "-k", "tx")
    assert code == 3, text
    assert "no baseline is accepted" in " ".join(text.split())


@pytest.mark.parametrize(("words", "expected"), [((), 4), (("--bisect",), 132)])
def test_a_kernel_is_refused_with_one_sentence_that_says_where_one_can_be_tried(
    project: Project, words: tuple[str, ...], expected: int
) -> None:
    (project.path / "Image").write_bytes(made.image())
    code, text = gate(project, "Image", *words)
    assert code == expected, text
    assert f"{NODE} starts no kernel from /boot/firmware" in text
    assert "lab/emulated.yaml" in text
    assert f"No answer on Image: {NODE} starts no kernel" in " ".join(text.split())


TWO_BOARDS = """
import pytest

@pytest.mark.pinet(board=["pi3b", "pi5"], nic="onboard")
def test_paced(link, gate):
    gate.tcp(link, bitrate="60 Mbit/s", duration="1 s", warmup="0.3 s")
"""


@pytest.mark.usefixtures("as_it_was")
def test_two_workers_measure_a_board_each_and_give_one_answer(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_change.py": TWO_BOARDS, "good.yaml": GOOD, "same.yaml": GOOD})
    code, text = gate(project, "same.yaml", "--baseline=good.yaml", "-n2")
    head = project.results["change"]
    assert code == head["exit"], text
    # A host that has other things to do leaves it open, and calls nothing slower.
    assert {entry["outcome"] for entry in head["entries"]} <= {"unchanged", "undecided"}
    turns = {result["combination"]["dut"]: result["change"]["turns"] for result in project.results["results"]}
    assert turns.keys() == {"pi3b-1:onboard", "pi5-1:onboard"}
    assert head["turns"] == sum(len(some) for some in turns.values())
    # Neither board waited for the other to end.
    first, second = sorted(project.results["results"], key=lambda result: str(result["started"]))
    began = [datetime.fromisoformat(result["started"]) for result in (first, second)]
    assert (began[1] - began[0]).total_seconds() < first["seconds"]
    assert gate_lab.holders() == []
