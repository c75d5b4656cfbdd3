from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.config.calibration import load_calibration
from pytest_pinet.config.lab_path import lab_of_ini, lab_path, packaged_labs
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.virtual.runtime import Runtime

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_lab_of_the_checkout_is_packaged_under_its_name() -> None:
    assert packaged_labs() == sorted(p.stem for p in (ROOT / "lab").glob("*.yaml") if "calibration" not in p.name)
    for name in packaged_labs():
        assert load(name, in_use=False).file == name
        assert lab_path(name).resolve() == ROOT / "lab" / f"{name}.yaml"


def test_a_path_is_a_path(elsewhere: Path) -> None:
    assert lab_path("bench.yaml") == Path("bench.yaml")
    assert lab_path("./virtual") == Path("./virtual")
    (elsewhere / "virtual").write_text("pinet: {}")
    assert lab_path("virtual") == Path("virtual"), "a file here comes first"
    (elsewhere / "published").mkdir()
    assert lab_path("published").is_file(), "a folder is no lab"


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(ConfigError) as refused:
        load("virtul")
    assert str(refused.value) == (
        "unknown packaged lab 'virtul', did you mean 'virtual'?; there is no file of this name either"
    )


def test_the_path_of_a_packaged_lab_in_a_checkout_leads_to_its_name() -> None:
    with pytest.raises(ConfigError) as refused:
        load("lab/virtual.yaml")
    assert str(refused.value) == (
        "lab/virtual.yaml: this file does not exist; 'virtual' without folder and suffix names the lab that is packaged"
    )


def test_an_ini_key_holds_a_path_below_the_rootdir_or_a_name(elsewhere: Path) -> None:
    root = elsewhere / "project"
    root.mkdir()
    assert lab_of_ini("virtual", root) == "virtual"
    assert lab_of_ini("benches/one.yaml", root) == str(root / "benches/one.yaml")
    (root / "bench").write_text("pinet: {}")
    assert lab_of_ini("bench", root) == str(root / "bench")


def test_files_about_a_packaged_lab_are_in_the_working_folder() -> None:
    lab = load("emulated")
    assert lab.calibration == Path(".pinet/emulated.calibration.yaml")
    assert lab.baselines == Path("baselines/emulated")
    own = load_calibration(lab)
    assert own, "the packaged calibration counts until there is an own one"
    lab.calibration.parent.mkdir()
    first, *_ = own
    text = (ROOT / "lab/emulated.calibration.yaml").read_text()
    lab.calibration.write_text(text.replace("margin: ", "margin: 1"))
    assert load_calibration(lab)[first].where.file == ".pinet/emulated.calibration.yaml"


def test_a_name_and_the_file_are_the_same_running_lab() -> None:
    file = str(ROOT / "lab/virtual.yaml")
    assert Runtime.of("virtual").path == Runtime.of(file).path
    assert vars(Journal("virtual")) == vars(Journal(file))
