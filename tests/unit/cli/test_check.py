"""``pinet check`` needs no value that only a board needs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.cli import run
from pytest_pinet.config.labfile import load
from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.links import check_board_and_nics
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.hardware import FoundBoard

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


TWINS = """\
pinet:
  switches:
    s: {backend: fixed, ports: p1-p9}
  nodes:
    pi:
      board: pi4b
      interfaces:
        onboard: {port: s/p1}
        left: {nic: rtl8153, port: s/p2, WAY1}
        right: {nic: rtl8153, port: s/p3, WAY2}
"""
MACS = ("mac: '00:e0:4c:00:00:02'", "mac: '00:e0:4c:00:00:03'")


@pytest.mark.parametrize(
    ("ways", "text", "is_named"),
    [
        (("device: eth1", "device: eth2"), TWINS, True),
        ((MACS[0], "device: eth2"), TWINS, True),
        (MACS, TWINS, False),
        (("bus_info: usb-0000:01:00.0-1", "bus_info: usb-0000:01:00.0-2"), TWINS, False),
        (("device: eth1", "device: eth2"), TWINS.replace("left: {nic: rtl8153", "left: {nic: ax88179"), False),
        (("device: eth1", "device: eth2"), TWINS.replace("pinet:", "pinet:\n  launcher: virtual", 1), False),
    ],
    ids=["names", "one name", "MAC addresses", "places", "other drivers", "a launcher names them"],
)
def test_two_usb_nics_of_one_kind_without_addresses_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ways: tuple[str, str], text: str, is_named: bool
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(text.replace("WAY1", ways[0]).replace("WAY2", ways[1]))
    assert run(["check", str(file)]) == 0
    note = (
        "note: pi:left and pi:right have the same driver and bus: without `mac:` or `bus_info:`, only a managed switch "
        "notices that their names were exchanged: give each its `mac:`; `pinet discover` prints the lines for the lab "
        "file"
    )
    assert (note in " ".join(capsys.readouterr().out.split())) == is_named
    lab = load(str(file))
    boards = {"pi": FoundBoard(None, {})}
    found = check_board_and_nics(cast(Bench, SimpleNamespace(lab=lab, ready=[lab.nodes["pi"]], boards=boards)))
    assert any("only a managed switch notices" in one.message for one in found) == is_named
