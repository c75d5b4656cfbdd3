"""``pinet losses who`` names driver, file and maintainers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_pinet.cli import pinet
from pytest_pinet.errors import ConfigError
from tests.support.build_files import module
from tests.support.half_year_history import half_year, keep
from tests.support.maintainer_tree import commit_usb, maintainer_tree


def said(*words: str) -> str:
    done = CliRunner().invoke(pinet, ["losses", "who", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_driver_and_a_metric_of_the_catalogue() -> None:
    text = said("bcmgenet")
    assert text.startswith(
        "bcmgenet: drivers/net/ethernet/broadcom/genet/bcmgenet.c\n  BROADCOM GENET ETHERNET DRIVER (MAINTAINERS of"
    )
    assert "\n  open list: netdev@vger.kernel.org\n" in text
    assert said("pi4b:onboard/pair/tcp-P1-tx") == text


def test_a_metric_has_the_driver_of_its_newest_run(folder: Path) -> None:
    (folder / ".pinet").mkdir()
    runs = half_year(1, runs=2)
    keep(runs, ".pinet/history.db")
    result = next(one for one in runs[-1].results if one.build.get("driver"))
    (found,) = json.loads(said("--json", result.id))
    assert found["driver"] == result.build["driver"]
    assert found["file"].startswith("drivers/net/")


def test_a_build_has_the_drivers_that_it_sets(folder: Path) -> None:
    (folder / "build.yaml").write_text("options: {e1000e: {InterruptThrottleRate: 100}}\n")
    assert said("build.yaml").startswith("e1000e: drivers/net/ethernet/intel/e1000e/")
    (folder / "build.yaml").write_text("cmdline: quiet\n")
    with pytest.raises(ConfigError, match=r"replaces no single driver, and its commit is not known; or name a metric"):
        said("build.yaml")


@pytest.fixture
def tree(folder: Path) -> str:
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed")
    (folder / "linux").mkdir()
    return str(maintainer_tree(folder / "linux"))


def test_a_kernel_tree_answers_for_a_driver(tree: str) -> None:
    lines = said("r8152", "--tree", tree).splitlines()
    assert lines[:3] == [
        "r8152: drivers/net/usb/r8152.c",
        "  ENTRY OF drivers/net/usb/r8152.c (MAINTAINERS of Linux 6.12.117-rc1)",
        "  supporter: Doug Berger <opendmb@gmail.com>",
    ]
    # Without the tree, the shipped table answers.
    assert "6.12.117-rc1" not in said("r8152")


def test_a_build_with_a_module_and_a_commit_has_the_owners_of_both(tree: str, folder: Path) -> None:
    (folder / "r8152.ko").write_bytes(module("r8152"))
    assert said("r8152.ko").startswith("r8152: drivers/net/usb/r8152.c\n  USB NETWORKING DRIVERS")
    commit = commit_usb(Path(tree))
    (folder / "build.yaml").write_text(f"modules: [r8152.ko]\nsource: {{commit: '{commit}'}}\n")
    found = json.loads(said("--json", "build.yaml", "--tree", tree))
    assert [(one["driver"], one["file"]) for one in found] == [
        (f"commit {commit[:12]}", "drivers/net/usb/Makefile and 2 more files"),
        ("r8152", "drivers/net/usb/r8152.c"),
    ]
    assert found[0]["entries"] == ["ENTRY OF patch"]


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match=r"the shipped table does not have the driver 'bcmgnet'"):
        said("bcmgnet")
    with pytest.raises(ConfigError, match=r"neither the history nor the catalogue knows the driver of 'pi9:x/pair'"):
        said("pi9:x/pair")
