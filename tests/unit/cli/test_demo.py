"""``pinet demo`` up to the start of the lab. A test of the wheel runs the whole demo."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from pytest_pinet.cli import pinet
from pytest_pinet.cli.demo import Traces
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.virtual import launcher, requirements, runtime


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(pinet, ["demo", *words])


def test_what_it_needs_comes_first_and_without_a_yes_nothing_is_written(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "missing_packages", lambda: ["iperf3", "lldpd"])
    done = run()
    assert done.output.splitlines()[1:] == [
        "  needs     root for network namespaces: this user is root",
        "  installs  with apt-get: iperf3 lldpd; starts no service",
        f"  writes    {place}/.pinet/demo, {place}/state/pytest-pinet-demo.json",
        "  undo      pinet demo --remove",
    ]
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == "this is no terminal, so there is no answer to a question: pass --yes"
    assert not list(place.iterdir())


def test_without_root_and_sudo_nothing_is_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "missing_packages", list)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(place))
    done = run("--yes")
    assert isinstance(done.exception, LabError)
    assert str(done.exception).splitlines()[0] == (
        "the virtual lab needs root for its network namespaces, but this user is not root and `sudo -n true` fails; a "
        "user namespace cannot replace it here: newuidmap is missing (Debian package uidmap)"
    )
    assert not list(place.iterdir())


@pytest.fixture
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements, "may_be_root", lambda: False)
    monkeypatch.setattr(requirements, "check_user_namespaces", lambda: None)


@pytest.mark.usefixtures("ordinary_user")
def test_only_root_can_install_packages(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "missing_packages", lambda: ["iperf3", "lldpd"])
    done = run("--yes")
    assert str(done.exception) == (
        "the virtual lab needs system packages, which only root can install: iperf3 lldpd\n"
        "  -> as root: apt-get install --no-install-recommends iperf3 lldpd"
    )
    assert not list(place.iterdir())


@pytest.mark.usefixtures("ordinary_user")
def test_an_ordinary_user_is_told_of_the_user_namespace_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "missing_packages", list)
    done = run()
    assert done.output.splitlines()[1] == (
        "  needs     root for network namespaces: this user becomes root of a user namespace"
    )
    assert isinstance(done.exception, ConfigError)


def test_packages_are_known_before_they_are_installed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash during the installation leaves packages that --remove must find."""

    def crash() -> None:
        raise LabError("apt-get failed")

    monkeypatch.setattr(requirements, "missing_packages", lambda: ["iperf3"])
    monkeypatch.setattr(requirements, "plan_installation", lambda packages: [*packages, "libiperf0"])
    monkeypatch.setattr(requirements, "install_packages", crash)
    assert isinstance(run("--yes").exception, LabError)
    kept = json.loads((place / "state" / "pytest-pinet-demo.json").read_text())
    assert sorted(kept["packages"]) == ["iperf3", "libiperf0"]
    monkeypatch.setattr(requirements, "remove_packages", sorted)
    done = run("--remove", "--yes").output
    assert "removes the system packages that were installed for demos: " in done
    assert "removed: 1 folder, 2 system packages" in done
    assert not (place / "state" / "pytest-pinet-demo.json").exists()
    assert run("--remove").output == "no demo of this user left anything\n"


def test_nothing_is_left_in_the_folder(place: Path) -> None:
    folder = place / ".pinet" / "demo"
    folder.mkdir(parents=True)
    Traces((str(folder),)).write()
    assert run("--remove", "--yes").exit_code == 0
    assert not (place / ".pinet").exists()


def test_runs_of_the_user_stay(place: Path) -> None:
    folder = place / ".pinet" / "demo"
    folder.mkdir(parents=True)
    (place / ".pinet" / "history.db").touch()
    Traces((str(folder),)).write()
    assert run("--remove", "--yes").exit_code == 0
    assert [path.name for path in (place / ".pinet").iterdir()] == ["history.db"]


@pytest.fixture
def gated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the demo with these verdicts of its gates. Pytest ends with 1 if a link is slower, and without a decision."""

    def demonstrated(verdicts: Sequence[str], *words: str) -> Result:
        left = iter(verdicts)

        def gate(argv: list[str], folder: Path) -> int:
            if "pytest" in argv:
                (folder / ".pinet" / "run").mkdir(parents=True, exist_ok=True)
                (folder / ".pinet" / "latest").symlink_to("run")
                results = folder / ".pinet" / "run" / "results.json"
                results.write_text(json.dumps({"results": [{"verdict": next(left)}]}))
            return 1

        monkeypatch.setattr(requirements, "missing_packages", list)
        monkeypatch.setattr(launcher, "launcher", Mock)
        monkeypatch.setattr(runtime, "Runtime", Mock())
        monkeypatch.setattr("pytest_pinet.cli.demo._child", gate)
        done = run("--yes", *words)
        assert list(left) == []
        return done

    return demonstrated


RIGHT = ["pass", "fail", "marginal"]


def test_a_gate_that_decided_right_each_time_is_right(gated: Callable[..., Result]) -> None:
    done = gated(RIGHT)
    assert (done.exit_code, "expected the verdict" in done.output) == (0, False)


@pytest.mark.parametrize("begun", [["invalid"], ["pass", "invalid"], ["pass", "fail", "inconclusive"]])
def test_without_a_decision_all_steps_run_again_at_a_tenth_of_the_rates(
    begun: list[str], gated: Callable[..., Result], place: Path
) -> None:
    done = gated([*begun, *RIGHT])
    assert done.exit_code == 0
    assert "so the gate did not decide. All steps run again with links at a tenth of their rate" in done.output
    assert "scale: 0.1" in (place / ".pinet" / "demo" / "lab.yaml").read_text()


def test_without_a_decision_at_a_tenth_of_the_rates_the_demo_says_what_disturbs(gated: Callable[..., Result]) -> None:
    done = gated(["pass", "invalid", "pass"], "--scale", "0.1")
    assert done.exit_code == 1
    assert "expected the verdict fail, got invalid: other programs disturbed the connections" in done.output


def test_a_wrong_verdict_is_not_excused_by_other_programs(gated: Callable[..., Result]) -> None:
    done = gated(["pass", "pass", "pass"])
    assert done.exit_code == 1
    assert "expected the verdict fail, got pass: its text above says why" in done.output
