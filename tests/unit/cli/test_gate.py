"""``pinet gate``: exit codes for scripts and git bisect."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.cli import run
from pytest_pinet.cli.gate import code_of
from pytest_pinet.errors import ConfigError, OutputError, PinetError, UnsupportedError
from pytest_pinet.model.record.change import ChangeHeadRecord
from tests.support.change_session import LAB_FILE, NEW, Bench, bench_with

TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_tx(link, gate):
    gate.tcp(link, direction="tx")
"""
OK, INTERRUPTED, INTERNAL, USAGE, NOTHING = 0, 2, 3, 4, 5


def head(exit_code: int, bisect: int) -> ChangeHeadRecord:
    # Only the exit codes are read.
    return ChangeHeadRecord.model_construct(exit=exit_code, bisect_exit=bisect)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("status", "found", "refused", "plain", "bisect"),
    [
        (OK, head(0, 0), None, 0, 0),
        (1, head(1, 1), None, 1, 1),
        (1, head(1, 125), None, 1, 125),
        (1, head(2, 125), None, 2, 125),
        (1, head(3, 125), None, 3, 125),
        (USAGE, None, None, 4, 132),
        (USAGE, None, UnsupportedError("no boot partition"), 4, 132),
        (USAGE, None, ConfigError("vermagic"), 4, 125),
        (USAGE, head(0, 0), OutputError("full"), 74, 202),
        (NOTHING, None, None, 4, 132),
        (INTERNAL, None, None, 70, 125),
        (OK, None, None, 3, 125),
        (INTERNAL, head(0, 0), None, 70, 125),
        (INTERRUPTED, head(0, 0), None, 130, 130),
    ],
)
def test_exit_codes(
    status: int, found: ChangeHeadRecord | None, refused: PinetError | None, plain: int, bisect: int
) -> None:
    assert code_of(status, found, refused, bisect=False) == plain
    assert code_of(status, found, refused, bisect=True) == bisect


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, TEST) as found:
        yield found


def gate(bench: Bench, *words: str) -> tuple[int, str]:
    argv = [sys.executable, "-m", "pytest_pinet.cli", "gate", *words]
    argv[1:3] = ["-c", "from pytest_pinet.cli import main; main()"]
    done = subprocess.run(
        argv, cwd=bench.pytester.path, capture_output=True, text=True, timeout=240, check=False,
        env=_environment(bench.pytester.path),
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def _environment(folder: Path) -> dict[str, Any]:
    import os

    return {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[3]}:{folder}", "PINET_HISTORY": "off"}


def test_the_exit_code_is_the_decision_and_pytest_gets_further_arguments(bench: Bench) -> None:
    words = ("new.yaml", "--against=good.yaml", "--lab=lab.yaml", "-k", "tx", "-q")
    assert gate(bench, *words)[0] == 0
    bench.plan('PLAN = Plan(ratio={"onboard": 0.97})')
    code, text = gate(bench, "--bisect", *words)
    assert code == 1, text
    assert "new must not be merged" in text


@pytest.mark.slow
def test_a_commit_that_does_not_boot_or_compile_is_skipped(bench: Bench) -> None:
    bench.plan(
        'PLAN = Plan(start=lambda side, boot: BuildError("panic", "panic") if side is Side.B else None)'
    )  # fmt: skip
    words = ("--against=good.yaml", "--lab=lab.yaml")
    assert gate(bench, "new.yaml", *words)[0] == 1
    assert gate(bench, "new.yaml", "--bisect", *words)[0] == 125
    code, text = gate(bench, "no-image.yaml", "--bisect", *words)
    assert (code, "no-image.yaml" in text) == (125, True)


@pytest.mark.slow
def test_wrong_arguments_end_the_bisection(bench: Bench) -> None:
    code, text = gate(bench, "new.yaml", "--bisect", "--against=gone.yaml", "--lab=lab.yaml")
    assert code == 132
    assert "--against: gone.yaml" in text
    assert gate(bench, "new.yaml", "--against=good.yaml", "--lab=lab.yaml", "--boots=2")[0] == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["new.yaml", "--boots=2"], "ERROR: --boots 2: too few boots"),
        (["new.yaml", "--pinet-boots=2"], "ERROR: --pinet-boots 2: too few boots"),
        (["new.yaml", "--against=accepted", "--boots=8"], "ERROR: --boots 8: --against accepted boots the build only"),
        (["gone.yaml"], "ERROR: BUILD: gone.yaml: there is no file"),
        # The plan of a gate without a lab would be empty.
        (["new.yaml", "--pinet-dry-run"], "ERROR: BUILD: no lab is configured for the build; pass --lab FILE"),
    ],
)
def test_an_error_calls_an_option_as_the_user_did(
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.delenv("PINET_LAB", raising=False)
    (pytester.path / "lab.yaml").write_text(LAB_FILE)
    (pytester.path / "new.yaml").write_text(NEW)
    lab = [] if "--pinet-dry-run" in words else ["--lab=lab.yaml"]
    with pytest.raises(SystemExit) as ended:
        run(["gate", *words, *lab, "--pyargs"])
    assert ended.value.code == 4
    said = capfd.readouterr().err
    assert message in said
    # pytest knows its own option.
    assert "pinet: '--pyargs'" not in said


def test_a_dry_run_prints_its_plan_and_makes_no_decision(bench: Bench) -> None:
    code, text = gate(bench, "new.yaml", "--against=good.yaml", "--lab=lab.yaml", "--pinet-dry-run")
    assert code == 0, text
    assert "A good, B new: 6 to 16 turns" in text


@pytest.mark.slow
def test_a_regression_is_reported_even_if_workers_stop_at_the_first_failure(bench: Bench) -> None:
    bench.plan('PLAN = Plan(ratio={"onboard": 0.97})')
    words = ("new.yaml", "--against=good.yaml", "--lab=lab.yaml", "-p", "xdist", "-n1", "-x")
    assert gate(bench, *words)[0] == 1
    assert gate(bench, "--bisect", *words)[0] == 1
