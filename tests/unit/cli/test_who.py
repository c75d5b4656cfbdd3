"""``pinet who`` names driver, file and maintainers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_pinet.cli import pinet
from pytest_pinet.errors import ConfigError
from tests.support.half_year_history import half_year, keep


def said(*words: str) -> str:
    done = CliRunner().invoke(pinet, ["who", *words])
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


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match=r"the shipped table does not have the driver 'bcmgnet'"):
        said("bcmgnet")
    with pytest.raises(ConfigError, match=r"neither the history nor the catalogue knows the driver of 'pi9:x/pair'"):
        said("pi9:x/pair")
