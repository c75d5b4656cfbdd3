"""pinet check, matrix and graph on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.cli import run as code_of
from pytest_pinet.config.labfile import load
from pytest_pinet.doctor.bench import Bench
from pytest_pinet.doctor.links import check_board_and_nics
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.hardware import FoundBoard
from tests.support.commands import mistake, run
from tests.support.diagram_labs import FIFTY, ROOT, SWITCHES

DESK = """\
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
    Path("desk.yaml").write_text(DESK)

    def checked() -> str:
        assert code_of(["check", "desk.yaml"]) == 0
        return " ".join(capsys.readouterr().out.split())

    first = checked()
    assert first.startswith(
        "desk.yaml: ok, lab desk: 1 nodes, 1 interfaces note: line 5: the variable LG_PI is not set; "
    )
    assert "note: line 7: the variable LG_KEY is not set; commands that use a board need its value" in first
    assert code_of(["matrix", "--lab", "desk.yaml"]) == 0
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
    Path("desk.yaml").write_text(DESK)
    Path("baselines").mkdir()
    file = Path("baselines/acknowledged.yaml")
    file.write_text(
        "acknowledged:\n- {id: 'pi4b:onboard/pair/tcp-P1-tx', owner: Ann, until: '2026-12-31', link: 'https://x.org/1',\n"
        "  value: 895.8 Mbit/s, date: '2026-11-16'}\n"
    )
    assert code_of(["check", "desk.yaml"]) == 0
    assert "0 baselines and 1 acknowledged loss in baselines" in capsys.readouterr().out
    file.write_text("acknowledged: []\nbaselines: []\n")
    assert code_of(["check", "desk.yaml"]) == 4
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
    assert code_of(["check", str(file)]) == 0
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


LAB = str(ROOT / "lab" / "virtual.yaml")


def test_the_matrix_has_pairs_by_default() -> None:
    result = run("matrix", "--lab", LAB)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "    combination        interfaces, the one under test first"
    assert lines[1] == "ok  pi3b:onboard/pair  pi3b-1:onboard, pi3b-2:onboard"
    assert lines[-1] == "lab virtual: 9 of 9 combinations possible"


def test_the_lab_file_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINET_LAB", LAB)
    assert run("matrix").output.endswith("lab virtual: 9 of 9 combinations possible\n")
    assert run("graph").output.startswith("lab virtual: 6 nodes")


def test_options_select_boards_nics_and_topologies() -> None:
    result = run(
        "matrix", "--lab", LAB, "--board", "pi4*", "--nic", "rtl*", "--topology", "incast:5", "--topology", "chain"
    )
    ids = [line.split()[1] for line in result.output.splitlines() if line.startswith(("ok ", "-  "))]
    assert ids == ["pi4b:rtl8153/incast:5", "pi4b:rtl8153/chain"]


def test_topology_all_lists_one_topology_of_each_kind() -> None:
    lines = run("matrix", "--lab", LAB, "--topology", "all").output.splitlines()
    assert lines[0] == "board:NIC     pair  pairs:3  incast:5  outcast:5  mesh:6  chain  opposed"
    assert lines[1] == "pi3b:onboard  ok    ok       ok        ok         ok      ok     ok"
    assert lines[-1] == "lab virtual: 63 of 63 combinations possible"


def test_the_job_matrix_of_a_ci_system_has_a_job_for_each_board() -> None:
    done = run("matrix", "--lab", LAB, "--format", "github", "--runner", "rack-2", "--runner", "arm64")
    boards = ["pi3b", "pi4b", "cm4", "pi5"]
    assert json.loads(done.output) == {"include": [{"board": one, "runner": ["rack-2", "arm64"]} for one in boards]}
    done = run("matrix", "--lab", LAB, "--format", "gitlab", "--board", "pi[34]*")
    # One line, which GitLab reads as YAML.
    assert done.output == '[{"BOARD":["pi3b","pi4b"],"RUNNER":["network-lab"]}]\n'


def test_json_is_a_list_for_a_ci_matrix() -> None:
    result = run("matrix", "--lab", LAB, "--nic", "onboard", "--board", "pi4b", "--topology", "pair",
                 "--topology", "mesh:7", "--json")  # fmt: skip
    possible, impossible = json.loads(result.output)
    source = possible["limits"]["tx"]["source"]
    assert possible == {
        "id": "pi4b:onboard/pair",
        "board": "pi4b",
        "nic": "onboard",
        "topology": "pair",
        "tuning": "",
        "nodes": ["pi4b-1", "pi4b-2"],
        "interfaces": ["pi4b-1:onboard", "pi4b-2:onboard"],
        "uplinks": [],
        "places": ["pi4b-1", "pi4b-2"],
        "management": {},
        "limits": {"tx": {"min": "94%", "source": source}, "rx": {"min": "94%", "source": source}},
        "possible": True,
        "reason": None,
    }
    assert source.startswith(f"{LAB}:")
    assert impossible["possible"] is False
    assert impossible["nodes"] == impossible["places"] == []
    assert impossible["reason"].startswith("mesh:7 needs 7 nodes that reach each other over switch sw1")


def test_the_matrix_lists_tuned_combinations() -> None:
    options = ("--lab", LAB, "--nic", "onboard", "--board", "pi4b", "--tuning", "none", "--tuning", "mtu=9000+rps=all")
    assert [one["id"] for one in json.loads(run("matrix", *options, "--json").output)] == [
        "pi4b:onboard/pair",
        "pi4b:onboard/pair/rps=all+mtu=9000",
    ]
    assert "tuned rps=all+mtu=9000" in run("matrix", *options).output
    assert run("graph", "pi4b:onboard/pair/mtu=9000", "--lab", LAB).output.startswith("pi4b:onboard/pair/mtu=9000 in")


def test_an_unknown_tuning_is_a_mistake(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    message = mistake(capsys, monkeypatch, "matrix", "--lab", LAB, "--tuning", "rsp=all")
    assert "--tuning: unknown tuning 'rsp', did you mean 'rps'?" in message
    message = mistake(capsys, monkeypatch, "graph", "pi4b:onboard/pair/mtu=x", "--lab", LAB)
    assert "'pi4b:onboard/pair/mtu=x': mtu: 'x' is not a number of bytes such as 1500 or 9000" in message


def test_the_matrix_lists_uplinks(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(SWITCHES)
    result = run("matrix", "--lab", str(tmp_path / "lab.yaml"), "--topology", "incast:3", "--json")
    first = json.loads(result.output)[0]
    assert first["id"] == "pi4b:onboard/incast:3"
    assert first["uplinks"] == ["trunk-a", "trunk-b"]
    assert set(first["uplinks"]) < set(first["places"])
    assert first["limits"] == {}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--board", "pi4"], "pinet: --board: unknown board of lab virtual 'pi4', did you mean 'pi4b'?"),
        (["--nic", "rtl8135"], "pinet: --nic: unknown nic of lab virtual 'rtl8135', did you mean 'rtl8153'?"),
        (["--topology", "pare"], "pinet: --topology: 'pare' is not a topology; expected pair, pairs:N, incast:N"),
        (["--topology", "mesh:2"], "pinet: --topology: 'mesh:2': the N of topology mesh:N must be 3 to 64"),
    ],
)
def test_a_wrong_option_of_matrix_is_explained_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], sentence: str
) -> None:
    message = mistake(capsys, monkeypatch, "matrix", "--lab", LAB, *options)
    assert message.startswith(sentence)
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["pi4b:onbord/incast:5"],
         "no combination 'pi4b:onbord/incast:5' in lab virtual; did you mean 'pi4b:onboard/incast:5'? "
         "('pinet matrix --topology NAME' lists them)"),
        (["pi4b:onboard/incst:5"],
         "no combination 'pi4b:onboard/incst:5' in lab virtual; did you mean 'pi4b:onboard/incast:5'? "
         "('pinet matrix --topology NAME' lists them)"),
        (["x"],
         "no combination 'x' in lab virtual; ids look like 'pi3b:onboard/pair' "
         "('pinet matrix --topology NAME' lists them)"),
        (["pi5:onboard/mesh:7"],
         "lab virtual cannot run pi5:onboard/mesh:7: mesh:7 needs 7 nodes that reach each other over switch sw1, "
         "but lab virtual has only cm4-1, pi3b-1, pi3b-2, pi4b-1, pi4b-2, pi5-1 there"),
        (["pi5:onboard/incast:2", "--direction", "tx"],
         "--direction: direction 'tx' is not possible in topology incast:2; accepted: rx"),
        (["--direction", "tx"], "--direction tx needs a combination, as in: pi4b:onboard/pair --direction tx"),
    ],
)  # fmt: skip
def test_a_wrong_option_of_graph_is_explained_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], sentence: str
) -> None:
    message = mistake(capsys, monkeypatch, "graph", "--lab", LAB, *options)
    assert message == f"pinet: {sentence}\n"


def test_a_graph_without_an_id_shows_the_lab() -> None:
    result = run("graph", "--lab", LAB)
    assert result.exit_code == 0
    assert "|-- p9   10 Gbit/s   cm4-1:pcie      cm4, aqc107 on pcie2x1, eth1\n" in result.output


def test_option_direction_sets_the_direction_of_the_graph() -> None:
    result = run("graph", "pi4b:rtl8153/pair", "--lab", LAB, "--direction", "rx")
    assert "cm4-1:pcie  ----> pi4b-2:usb\n" in result.output
    assert "domains  host" in result.output


def test_a_lab_with_a_launcher_has_its_host_as_a_domain(tmp_path: Path) -> None:
    text = Path(LAB).read_text()
    (tmp_path / "lab.yaml").write_text(text[: text.index("  # One measurement at a time in each domain")])
    assert "host: all nodes" in run("graph", "--lab", str(tmp_path / "lab.yaml")).output


def test_fifty_nodes_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(FIFTY)
    result = run("matrix", "--lab", str(tmp_path / "lab.yaml"), "--topology", "all")
    assert result.output.splitlines()[0].split() == [
        "board:NIC", "pair", "pairs:25", "incast:49", "outcast:49", "mesh:50", "chain", "opposed"
    ]  # fmt: skip
