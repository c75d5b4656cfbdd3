"""A build against the known-good state of real nodes, alternately. A node in a namespace accepts only sysctls."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.support import build_files as made
from tests.support.gate_project import GateLab, NewProject, Project

pytestmark = pytest.mark.slow

TESTS = """
import pytest

# So slow, and in so small pieces, that a busy machine gives the same value each time.
@pytest.mark.pinet(board="pi5", nic="rtl8125")
def test_paced(link, gate):
    gate.tcp(link, bitrate="300 Mbit/s", length="8K", duration="1 s", warmup="0.3 s", min="1 Mbit/s")
"""
GOOD = "sysctls: {net.ipv4.tcp_sack: 0}\n"
NODE = "pi5-1"


@pytest.fixture(scope="module")
def project(new_project: NewProject, gate_lab: GateLab) -> Iterator[Project]:
    yield new_project({"test_change.py": TESTS, "good.yaml": GOOD, "same.yaml": GOOD})
    # The gate leaves a node on that was on before.
    gate_lab.switch_power(False, NODE)


def gate(project: Project, *words: str) -> tuple[int, str]:
    """Return the exit code and the whole output."""
    plugins = ("-p", "no:allure_pytest")
    done = project.pinet("gate", *words, f"--lab={project.lab.file}", *plugins)
    return done.returncode, done.stdout + done.stderr


def sysctl(lab: GateLab, name: str) -> list[str]:
    return lab.execute(NODE, "cat", f"/proc/sys/{name.replace('.', '/')}").split()


@pytest.fixture
def as_it_was(gate_lab: GateLab) -> Iterator[None]:
    """Assert that the settings of a build are undone."""
    gate_lab.switch_power(True, NODE)
    gate_lab.await_boot(NODE)
    before = sysctl(gate_lab, "net.ipv4.tcp_sack")
    yield
    assert sysctl(gate_lab, "net.ipv4.tcp_sack") == before


@pytest.mark.parametrize(("words", "expected"), [((), 4), (("--bisect",), 132)])
def test_a_kernel_is_refused_with_one_sentence_that_says_where_one_can_be_tried(
    project: Project, words: tuple[str, ...], expected: int
) -> None:
    (project.path / "Image").write_bytes(made.image())
    code, text = gate(project, "Image", *words)
    assert code == expected, text
    text = " ".join(text.split())
    assert text.count(f"{NODE} shares its kernel with other containers") == 1
    assert "--lab emulated" in text
    assert f"No decision on Image: {NODE} shares its kernel" in text


TWO_BOARDS = """
import pytest

@pytest.mark.pinet(board=["pi3b", "pi5"], nic="onboard")
def test_paced(link, gate):
    gate.tcp(link, bitrate="60 Mbit/s", length="4K", duration="1 s", warmup="0.3 s", min="1 Mbit/s")
"""


@pytest.mark.usefixtures("as_it_was")
def test_two_workers_measure_a_board_each_and_give_one_answer(new_project: NewProject, gate_lab: GateLab) -> None:
    project = new_project({"test_change.py": TWO_BOARDS, "good.yaml": GOOD, "same.yaml": GOOD})
    code, text = gate(project, "same.yaml", "--against=good.yaml", "-n2")
    head = project.results["change"]
    assert code == head["exit"], text
    # On a busy host the result may stay undecided, but never slower.
    assert {entry["verdict"] for entry in head["entries"]} <= {"pass", "inconclusive"}
    turns = {result["combination"]["dut"]: result["change"]["turns"] for result in project.results["results"]}
    assert turns.keys() == {"pi3b-1:onboard", "pi5-1:onboard"}
    assert head["turns"] == sum(len(some) for some in turns.values())
    # Both boards were measured at the same time.
    first, second = sorted(project.results["results"], key=lambda result: str(result["started"]))
    began = [datetime.fromisoformat(result["started"]) for result in (first, second)]
    assert (began[1] - began[0]).total_seconds() < first["seconds"]
    assert gate_lab.holders() == []
