"""What ``pinet gate BUILD`` runs if no test is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.cli import run
from tests.support.change_session import LAB_FILE, NEW

OWN = "def test_own() -> None: ...\n"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PINET_PROFILE", raising=False)
    (pytester.path / "test_own.py").write_text(OWN)
    (pytester.path / "build.yaml").write_text(NEW)
    (pytester.path / "lab.yaml").write_text(LAB_FILE)
    return pytester.path


def collected(words: list[str], capfd: pytest.CaptureFixture[str]) -> set[str]:
    """Return the tests that a gate with these arguments would run, without their combinations."""
    with pytest.raises(SystemExit):
        run(["gate", "build.yaml", "--lab=lab.yaml", *words, "--collect-only", "-q", "-p", "no:cacheprovider"])
    lines = (line for line in capfd.readouterr().out.splitlines() if "::" in line)
    return {line.partition("::")[2].partition("[")[0] for line in lines}


FAST = {"test_line_rate", "test_ping"}


def test_without_a_test_it_is_the_fast_level_of_everyday(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert collected([], capfd) == FAST
    assert collected(["--board=pi4b", "-k", "ping"], capfd) == {"test_ping"}


def test_a_profile_that_is_written_counts(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert collected(["--profile=standard"], capfd) > FAST
    monkeypatch.setenv("PINET_PROFILE", "standard")
    assert collected([], capfd) > FAST


def test_tests_that_are_named_run_instead(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert collected(["test_own.py"], capfd) == {"test_own"}
    (project / "pytest.ini").write_text("[pytest]\ntestpaths = .\n")
    assert collected([], capfd) == {"test_own"}
