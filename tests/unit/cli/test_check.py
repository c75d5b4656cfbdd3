"""``pinet check`` needs no value that only a board needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.cli import run
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError

LAB = """\
imports: [pytest_pinet.lab.drivers]
targets:
  pi:
    resources:
      NetworkService: {address: !template "$LG_PI", username: pi}
    drivers:
      PiSSHDriver: {keyfile: !template "$LG_KEY"}
      PiStrategy: {}
pinet:
  switches:
    cable: {backend: fixed, ports: [pi]}
  nodes:
    pi: {board: pi4b, interfaces: {onboard: {port: cable/pi}}}
"""


def test_variables_that_are_not_set_are_noted_and_needed_only_with_boards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LG_PI", "LG_KEY"):
        monkeypatch.delenv(name, raising=False)
    Path("desk.yaml").write_text(LAB)

    def checked() -> str:
        assert run(["check", "desk.yaml"]) == 0
        return " ".join(capsys.readouterr().out.split())

    first = checked()
    assert first.startswith(
        "desk.yaml: ok, lab desk: 1 nodes, 1 interfaces note: line 5: the variable LG_PI is not set; "
    )
    assert "note: line 7: the variable LG_KEY is not set; commands that use a board need its value" in first
    assert run(["matrix", "--lab", "desk.yaml"]) == 0
    with pytest.raises(ConfigError, match=r"desk.yaml:5: .* needs the variable LG_PI, which is not set"):
        load("desk.yaml")
    capsys.readouterr()
    monkeypatch.setenv("LG_PI", "192.0.2.5")
    monkeypatch.setenv("LG_KEY", "key")
    assert "note" not in checked()
    assert load("desk.yaml").unset == {}


def test_the_files_beside_the_lab_file_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("desk.yaml").write_text(LAB)
    Path("baselines").mkdir()
    file = Path("baselines/acknowledged.yaml")
    file.write_text(
        "acknowledged:\n- {id: 'pi4b:onboard/pair/tcp-P1-tx', owner: Ann, until: '2026-12-31', link: 'https://x.org/1',\n"
        "  goodput: 895.8 Mbit/s, date: '2026-11-16'}\n"
    )
    assert run(["check", "desk.yaml"]) == 0
    assert "0 baselines and 1 acknowledged loss in baselines" in capsys.readouterr().out
    file.write_text("acknowledged: []\nbaselines: []\n")
    assert run(["check", "desk.yaml"]) == 4
    assert "baselines/acknowledged.yaml:2: unknown key 'baselines'" in capsys.readouterr().err
