"""A third-party package adds a traffic tool, a tuning, an evidence source, an exporter and hooks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import acme
from tests.support.gate_project import PINET, SLOW_ON_PURPOSE, NewProject, Project

TEST = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="90%", tuning={"queue_length": 77, "mtu": 1400})
def test_it(link, gate):
    print("QUEUE", link.dut.shell.run(f"cat /sys/class/net/{link.dut.device}/tx_queue_len").stdout)
    gate.tcp(link)
"""
REPLAY = """
test_it*:
  - connections: [{goodput: 70.0}]
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return acme.install(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def done(new_project: NewProject, packages: Path) -> tuple[Project, pytest.RunResult]:
    """One run that uses all parts of the package. The tool replays a slow link."""
    project = new_project({"conftest.py": SLOW_ON_PURPOSE, "test_it.py": TEST, "replay.yaml": REPLAY})
    return project, project.replayed(packages, "-rP", keys="  traffic_tool: acme\n")


def test_its_tool_measures_and_the_verdict_is_from_what_it_saw(done: tuple[Project, pytest.RunResult]) -> None:
    project, output = done
    output.assert_outcomes(failed=1)
    (result,) = project.results["results"]
    assert (result["tool"], result["verdict"]) == ("acme", "fail")
    assert result["directions"]["tx"]["goodput_bps"] == pytest.approx(70e6, rel=0.001)


def test_its_tuning_is_applied_read_back_and_stands_behind_ours_in_the_id(
    done: tuple[Project, pytest.RunResult],
) -> None:
    project, output = done
    (result,) = project.results["results"]
    assert result["combination"]["tuning"] == "mtu=1400+queue_length=77"
    (tuning,) = [one for one in result["tunings"] if one["name"] == "queue_length"]
    assert (tuning["outcome"], tuning["found"]) == ("applied", "77")
    output.stdout.fnmatch_lines(["QUEUE 77*"])


def test_its_evidence_is_read_before_and_after_the_traffic(done: tuple[Project, pytest.RunResult]) -> None:
    project, _ = done
    (result,) = project.results["results"]
    (file,) = [name for name in result["files"] if name.endswith("0-acme_load.txt")]
    text = (project.path / ".pinet" / "latest" / file).read_text()
    assert "# before try 1," in text
    assert "# after try 1," in text


def test_its_facts_stand_in_the_result_and_a_hook_that_raises_loses_nothing(
    done: tuple[Project, pytest.RunResult],
) -> None:
    project, output = done
    (result,) = project.results["results"]
    assert result["facts"] == {"shelf": 3, "dut": "pi3b-1"}
    assert result["build"]["uname"] != "changed", "a hook got a copy"
    output.stdout.fnmatch_lines(
        ["pinet: hook pytest_pinet_result of plugin acme raised RuntimeError: the chat is down; no result is lost"]
    )
    output.stdout.no_fnmatch_line("*has more to say*")


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("acme-lines", 0, "pi3b:onboard/pair/mtu=1400+queue_length=77/tcp-P1-tx,70.0\n"),
        ("acme-broken", 4, "pinet: exporter 'acme-broken' of package pinet-acme 2.0 failed: KeyError: "
        "'no such column'\n"),
        ("acme-line", 4, "pinet: unknown exporter 'acme-line', did you mean 'acme-lines'?\n"),
    ],
)  # fmt: skip
def test_its_exporter_writes_the_run(
    done: tuple[Project, pytest.RunResult], packages: Path, name: str, code: int, says: str
) -> None:
    project, _ = done
    exported = subprocess.run(
        [PINET, "export", "--format", name], cwd=project.path, env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (exported.returncode, exported.stdout + exported.stderr) == (code, says)
