"""``pinet matrix`` and ``pinet graph`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import mistake, run
from tests.support.diagram_labs import FIFTY, ROOT, SWITCHES

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
