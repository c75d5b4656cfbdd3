"""``pinet gate --exact`` and the marker ``exact``, with recorded boots (tests.support.recorded_exact)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.ab.options import STOCK
from pytest_pinet.cli import run
from pytest_pinet.cli.gate import _names_tests
from tests.support.gate_project import PINET
from tests.support.user_command import run_command

TESTS = """
import pytest

@pytest.mark.exact(nic="macb")
def test_default(exact_gate):
    found = exact_gate()
    assert found["frame-60-rx"].instructions_of_a == 4752
    assert found["frame-60-rx"].functions.get("gem_rx [macb]", (151, 155)) == (151, 155)

@pytest.mark.exact(nic="macb", instructions={"gem_rx": "1%"})
def test_receive_path(exact_gate):
    exact_gate()
"""
QUIET = ("-p", "no:cacheprovider", "--import-mode=importlib")
BUILDS = ("good", "nops", "slow", "qemu10", "unsteady", "lacking", "meeting", "moved", "heavier", "error panic")


Gate = Callable[..., tuple[int, str]]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Gate:
    """Make a folder with tests and builds. Return ``pinet gate --exact``, which gives exit code and output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_driver.py").write_text(TESTS)
    for name in BUILDS:
        (tmp_path / f"{name.replace(' ', '-')}.yaml").write_text(f"name: {name}\ncmdline: pinet.test=1\n")

    def gate(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(["gate", "--exact", *words, "-p", "tests.support.recorded_exact", *QUIET])
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out + err

    return gate


def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(".pinet/latest/results.json").read_text())
    return found


def test_the_packaged_test_runs_without_a_lab(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINET_LAB", "no such lab.yaml")
    code, out = gate("nops.yaml")
    assert code == 0, out
    assert f"nops may be merged: none of 2 metrics is slower than with the {STOCK};" in out
    assert "gem_rx [macb]  frame-60-rx  151.00  155.00   +4.00" in out
    assert "igb needs QEMU 8.0 or later, found 7.2.22" in out
    run = results()
    assert (run["lab"], run["figures"], run["change"]["baseline"]) == ("exact", "emulated", "exact")
    assert run["meaning"].startswith("instructions of a virtual machine, whose clock counts them;")
    assert "--pinet-exact" in run["results"][0]["rerun"]
    assert "--pinet-lab" not in run["results"][0]["rerun"]


def test_limits_of_markers_and_of_the_command_line(gate: Gate) -> None:
    code, out = gate("nops.yaml", "test_driver.py")
    assert code == 1
    assert "1 failed, 1 passed" in out
    assert "gem_rx [macb] grows by more than 1%" in " ".join(out.split())
    code, out = gate("nops.yaml", "test_driver.py", "--pinet-instructions=gem_rx=3%")
    assert code == 0, out


@pytest.mark.parametrize(
    ("build", "plain", "bisect", "text"),
    [
        ("slow", 1, 1, "slow must not be merged: 1 of 2 metrics slower, by 7.7 % in macb frame-60-rx,"),
        ("error-panic", 1, 125, "error panic must not be merged: panic (1 of 1 results), against the stock"),
        ("qemu10", 3, 125, "the boots cannot be compared: qemu was 7.2.22 with A and 10.0.2 with B"),
        ("missing", 4, 125, "missing.yaml"),
    ],
)
def test_exit_codes(gate: Gate, build: str, plain: int, bisect: int, text: str) -> None:
    code, out = gate(f"{build}.yaml")
    assert (code, text in out) == (plain, True), out
    assert gate(f"{build}.yaml", "--bisect")[0] == bisect


def test_a_board_that_is_not_exact_gives_no_verdict(gate: Gate) -> None:
    words = "nops.yaml", "--against=unsteady.yaml", "--pinet-nic=macb"
    code, out = gate(*words)
    assert code == 2
    assert "macb is not exact on this machine: tcp-tx: packets was 5500 in one boot and" in out
    # No commit can be judged on this machine, so the bisection ends in place of skipping them all.
    assert gate(*words, "--bisect")[0] == 131


def test_a_board_that_cannot_run_here_ends_a_bisection(gate: Gate) -> None:
    code, out = gate("nops.yaml", "--pinet-nic=igb")
    assert (code, "igb needs QEMU 8.0 or later, found 7.2.22" in out) == (3, True), out
    assert gate("nops.yaml", "--pinet-nic=igb", "--bisect")[0] == 131
    # Another board has judged the commit.
    assert gate("nops.yaml", "--bisect")[0] == 0
    # The next commit may have what this one lacks.
    assert gate("lacking.yaml", "--pinet-nic=macb", "--bisect")[0] == 125


def test_all_nics_boot_at_the_same_time(gate: Gate) -> None:
    """The boot of each NIC waits for that of the other one."""
    code, out = gate("meeting.yaml", "--against=meeting.yaml")
    assert code == 0, out
    assert "4 unchanged" in out


@pytest.mark.parametrize(
    ("build", "verdict", "boots"),
    [("nops", "pass", 1), ("slow", "fail", 1), ("moved", "pass", 2), ("heavier", "fail", 5)],
)
def test_more_boots_decide_if_the_first_ones_differ_outside_of_the_driver(
    gate: Gate, build: str, verdict: str, boots: int
) -> None:
    code, out = gate(f"{build}.yaml")
    assert code == (1 if verdict == "fail" else 0), out
    assert f"; {2 * boots} boots\n" in out
    (received,) = (one for one in results()["results"] if one["id"].endswith("frame-60-rx"))
    assert received["verdict"] == verdict
    turns = [(one["side"], one["variation"], one["seconds"]) for one in received["change"]["turns"]]
    assert turns == [(side, number, 42.0) for number in range(boots) for side in "AB"]
    sides = received["exact"]
    assert (sides["a"]["variation"], sides["b"]["variation"]) == ((0, 1) if build == "moved" else (0, 0))


def test_a_dry_run_lists_the_boots(gate: Gate) -> None:
    code, out = gate("nops.yaml", "--pinet-dry-run")
    assert code == 0, out
    assert "test_exact[macb]\n  macb: A stock kernel, 2 boots\n  macb: B nops, 1 boot\n" in out
    assert "\ntotal: 3 boots of exact boards (macb), and more for a NIC whose values differ\n" in out
    assert "\nB: nops: " in out
    assert "1 skipped, 1 planned" in out
    assert not Path(".pinet/latest").exists()


def test_exact_boards_need_an_exact_gate(gate: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    assert pytest.main(["--pinet-lab=exact", "test_driver.py", *QUIET]) == 4
    message = (
        "node 'e1000e' is an exact board (clock: exact), which only an exact gate boots: pinet gate --exact --lab exact"
    )
    assert message in " ".join(capfd.readouterr().err.split())
    assert run(["matrix", "--lab=exact"]) == 4
    assert message in " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--pinet-nic=foo"], "--pinet-nic: unknown NIC of exact boards 'foo'; accepted: igb, macb"),
        (["--boots=4"], "--boots 4: an exact gate boots each build once; remove the option"),
        (["--against=accepted"], "--against accepted: exact gates have no accepted baselines; expected a known-good"),
        (["--pinet-instructions=few"], "--pinet-instructions 'few': instructions: 'few' is not a growth such as '1%'"),
    ],
)
def test_a_mistake_ends_a_bisection(gate: Gate, words: list[str], text: str) -> None:
    code, out = gate("nops.yaml", "--bisect", *words)
    assert (code, text in out) == (132, True), out


def test_without_a_build_the_test_is_skipped(gate: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    assert pytest.main(["-rs", "test_driver.py", *QUIET]) == 0
    out = capfd.readouterr().out
    assert "2 skipped" in out
    assert "an exact gate needs --pinet-exact and --pinet-build PATH, or: pinet gate --exact BUILD" in out


@pytest.mark.slow
@pytest.mark.usefixtures("gate")
def test_workers_run_nics_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers import what their controller could import when it started, so this one is a process of its own.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))

    def with_workers(*words: str) -> tuple[int, str]:
        argv = [PINET, "gate", "--exact", "nops.yaml", "-n", "2", *words, "-p", "tests.support.recorded_exact", *QUIET]
        done = run_command(argv, tmp_path, dict(os.environ), 120)
        return done.returncode, done.stdout

    code, out = with_workers()
    assert code == 0, out
    assert "2 unchanged; 2 boots" in out
    assert with_workers("--pinet-nic=igb", "--bisect")[0] == 131


@pytest.mark.parametrize(
    ("words", "has_tests"),
    [
        (["--pinet-nic", "igb"], False),
        (["--junitxml", "junit.xml"], False),
        (["-k", "x" * 300], False),
        (["-v", "tests"], True),
        (["test_own.py::test_it"], True),
        (["--pyargs", "package"], True),
    ],
)
def test_the_value_of_an_option_is_no_test(
    words: list[str], has_tests: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("igb", "tests"):
        Path(name).mkdir()
    for name in ("junit.xml", "test_own.py"):
        Path(name).touch()
    assert _names_tests(words) is has_tests


def test_a_gate_without_a_test_says_so(gate: Gate) -> None:
    code, output = gate("good.yaml", "test_driver.py", "-k", "nothing")
    assert code == 4
    assert "pinet: no test is selected, so there is no answer on good.yaml: check -k, -m, " in output
    assert "--pyargs" not in output
    code, output = gate("good.yaml", "-k", "nothing")
    assert output.rstrip().endswith("(none here; try --pyargs pytest_pinet.suites.test_line_rate)")
