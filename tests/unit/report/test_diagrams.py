"""Drawings of a lab and of its matrix as text."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.errors import ConfigError
from pytest_pinet.matrix.expansion import combination, entries, largest
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.topology import KINDS, parse_topology
from pytest_pinet.model.traffic import Direction
from pytest_pinet.report.diagrams import (
    MatrixEntry,
    arrows,
    combination_text,
    job_matrix,
    lab_text,
    matrix_text,
    ranges,
)
from tests.support.diagram_labs import FIFTY, ROOT, SWITCHES, lab_of


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(ROOT)
    return labfile.load("lab/virtual.yaml")


def drawn(lab: Lab, id_: str, direction: Direction | None = None, domains: tuple[str, ...] = ("host",)) -> str:
    found = combination(lab, id_)
    lines = combination_text(lab, found, direction or found.topology.directions[0], domains)
    return re.sub(r"yaml:\d+", "yaml:N", "\n".join(lines)) + "\n"


LAB = """\
lab virtual: 6 nodes with 11 interfaces, 1 switch; its values are emulated

switch sw1 (BACKEND, 16 ports)
|-- p1   100 Mbit/s  pi3b-1:onboard  pi3b, lan9514 on usb2, eth0
|-- p2   1 Gbit/s    pi3b-1:usb      pi3b, ax88179 on usb2, eth1
|-- p3   100 Mbit/s  pi3b-2:onboard  pi3b, lan9514 on usb2, eth0
|-- p4   1 Gbit/s    pi4b-1:onboard  pi4b, genet, eth0
|-- p5   1 Gbit/s    pi4b-1:usb      pi4b, ax88179 on usb3, eth1
|-- p6   1 Gbit/s    pi4b-2:onboard  pi4b, genet, eth0
|-- p7   1 Gbit/s    pi4b-2:usb      pi4b, rtl8153 on usb3, eth1
|-- p8   1 Gbit/s    cm4-1:onboard   cm4, genet, eth0
|-- p9   10 Gbit/s   cm4-1:pcie      cm4, aqc107 on pcie2x1, eth1
|-- p10  1 Gbit/s    pi5-1:onboard   pi5, macb, eth0
|-- p11  2.5 Gbit/s  pi5-1:pcie      pi5, rtl8125 on pcie2x1, eth1
`-- free: p12-p16

contention domains (one measurement at a time in each):
  host: all nodes
"""

INCAST = """\
pi4b:onboard/incast:5 in lab virtual
5 flows at once, rx as seen from pi4b-1:onboard

group 1: a VLAN of its own on switch sw1
  |-- sw1/p4   1 Gbit/s    pi4b-1:onboard  pi4b, genet, eth0, under test
  |-- sw1/p6   1 Gbit/s    pi4b-2:onboard  pi4b, genet, eth0
  |-- sw1/p8   1 Gbit/s    cm4-1:onboard   cm4, genet, eth0
  |-- sw1/p10  1 Gbit/s    pi5-1:onboard   pi5, macb, eth0
  |-- sw1/p2   1 Gbit/s    pi3b-1:usb      pi3b, ax88179 on usb2, eth1
  |-- sw1/p3   100 Mbit/s  pi3b-2:onboard  pi3b, lan9514 on usb2, eth0

flows, all at once:
  pi4b-2:onboard  ----> pi4b-1:onboard
  cm4-1:onboard   ----> pi4b-1:onboard
  pi5-1:onboard   ----> pi4b-1:onboard
  pi3b-1:usb      ----> pi4b-1:onboard
  pi3b-2:onboard  ----> pi4b-1:onboard

limit    rx 94% (lab/virtual.yaml:N)
leases   cm4-1, pi3b-1, pi3b-2, pi4b-1, pi4b-2, pi5-1
domains  host (no other measurement runs there)
"""

CHAIN = """\
pi4b:onboard/chain in lab virtual
1 flow, tx as seen from pi4b-1:onboard

group 1: a VLAN of its own on switch sw1
  |-- sw1/p4   1 Gbit/s  pi4b-1:onboard  pi4b, genet, eth0, under test
  |-- sw1/p6   1 Gbit/s  pi4b-2:onboard  pi4b, genet, eth0

group 2: a VLAN of its own on switch sw1
  |-- sw1/p5   1 Gbit/s  pi4b-1:usb      pi4b, ax88179 on usb3, eth1
  |-- sw1/p10  1 Gbit/s  pi5-1:onboard   pi5, macb, eth0

flow:
  pi5-1:onboard  ----> pi4b-1:usb ====> pi4b-1:onboard ----> pi4b-2:onboard
  (====> inside pi4b-1, which forwards from one NIC to the other)

limit    94% (lab/virtual.yaml:N)
leases   pi4b-1, pi4b-2, pi5-1
domains  host (no other measurement runs there)
"""


def test_a_lab_is_a_tree_of_switches_ports_and_what_is_plugged_in(virtual: Lab) -> None:
    expected = LAB.replace("BACKEND", virtual.switches["sw1"].backend)
    assert "\n".join(lab_text(virtual, {"host": tuple(virtual.nodes)})) + "\n" == expected


def test_a_star_names_its_ports_and_who_sends_to_whom(virtual: Lab) -> None:
    assert drawn(virtual, "pi4b:onboard/incast:5") == INCAST


def test_a_chain_shows_what_is_forwarded_inside_the_node(virtual: Lab) -> None:
    assert drawn(virtual, "pi4b:onboard/chain") == CHAIN


@pytest.mark.parametrize(
    ("id_", "direction", "flows"),
    [
        ("pi4b:onboard/pair", None, ["pi4b-1:onboard  ----> pi4b-2:onboard"]),
        ("pi4b:onboard/pair", Direction.RX, ["pi4b-2:onboard  ----> pi4b-1:onboard"]),
        ("pi4b:onboard/pair", Direction.BIDIR, ["pi4b-1:onboard  <---> pi4b-2:onboard"]),
        ("pi4b:onboard/opposed", None,
         ["pi4b-1:onboard  ----> pi4b-2:onboard", "pi5-1:onboard   ----> cm4-1:onboard"]),
        ("pi4b:onboard/chain", Direction.RX,
         ["pi4b-2:onboard  ----> pi4b-1:onboard ====> pi4b-1:usb ----> pi5-1:onboard"]),
        ("pi4b:onboard/mesh:3", None,
         ["pi4b-1:onboard  <---> pi4b-2:onboard", "pi4b-1:onboard  <---> cm4-1:onboard",
          "pi4b-2:onboard  <---> cm4-1:onboard"]),
    ],
)  # fmt: skip
def test_arrows_go_the_way_of_the_traffic(
    virtual: Lab, id_: str, direction: Direction | None, flows: list[str]
) -> None:
    text = drawn(virtual, id_, direction)
    assert [line.strip() for line in text.splitlines() if re.search(r"[-=]{3}>", line) and "(" not in line] == flows


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        (name, direction)
        for name in ("pair", "pairs:3", "opposed", "incast:5", "outcast:4", "mesh:3", "mesh:6")
        for direction in parse_topology(name).directions
    ],
)
def test_every_flow_has_an_arrow_to_its_receiver(name: str, direction: Direction) -> None:
    topology = parse_topology(name)
    expected = Counter(
        (run.a, run.b) if way is Direction.TX else (run.b, run.a)
        for run in topology.runs(direction)
        for way in run.direction.parts
    )
    found = arrows(topology, direction)
    both = [(arrow.path[-1], arrow.path[0]) for arrow in found if arrow.both]
    assert Counter([(arrow.path[0], arrow.path[-1]) for arrow in found] + both) == expected


def test_uplinks_and_unmanaged_switches_are_named(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, SWITCHES)
    text = drawn(lab, "pi4b:onboard/incast:4")
    assert "over uplink core/p23 to rack-a/Gi1/0/8, 1 Gbit/s (trunk-a)" in text
    joined = " ".join(text.split())
    assert "group 1: fixed wiring on switches core, rack-a; a VLAN of its own on switch rack-b" in joined
    # Long text continues in its own column, beside the stem of the tree.
    assert "b:usb                     pi4b, ax88179 on usb3,\n  |" in text
    (below,) = {line.index("eth1") for line in text.splitlines() if line.strip(" |") == "eth1"}
    assert below == next(line.index("pi4b, ax88179") for line in text.splitlines() if "pi4b, ax88179" in line)
    whole = "\n".join(lab_text(lab, lab.domains))
    assert "|-- p24  10 Gbit/s  rack-b/p8  uplink trunk-b" in re.sub(r"(?<=p8) +", "  ", whole)
    assert "  rack: a, b\n  air: c, d" in whole


def test_without_domains_and_limits_both_say_so(tmp_path: Path) -> None:
    text = drawn(lab_of(tmp_path, SWITCHES), "pi4b:onboard/pair", domains=())
    assert "limit    none\n" in text
    assert "domains  none\n" in text


@pytest.mark.parametrize("source", ["virtual", "switches", "fifty"])
def test_all_text_fits_80_columns(virtual: Lab, tmp_path: Path, source: str) -> None:
    lab = {"virtual": lambda: virtual, "switches": lambda: lab_of(tmp_path, SWITCHES),
           "fifty": lambda: lab_of(tmp_path, FIFTY)}[source]()  # fmt: skip
    found = entries(lab, largest(lab))
    lines = [*lab_text(lab, lab.domains), *matrix_text(lab, found)]
    for entry in found:
        assert entry.combination is not None
        for direction in entry.combination.topology.directions:
            lines += combination_text(lab, entry.combination, direction, tuple(lab.domains))
    wide = [line for line in lines if len(line) > 80 or line != line.rstrip()]
    assert wide == []


def test_the_matrix_ticks_what_is_possible_and_says_why_the_rest_is_not(virtual: Lab) -> None:
    text = "\n".join(matrix_text(virtual, entries(virtual, [parse_topology("chain")], ["pi*"], ["onboard", "lan*"])))
    assert re.sub(r"yaml:\d+", "yaml:N", text) == (
        "    combination         interfaces, the one under test first\n"
        "ok  pi3b:onboard/chain  pi3b-1:onboard, pi3b-2:onboard, pi3b-1:usb,\n"
        "                        pi4b-1:onboard\n"
        "                        limit 94% (lab/virtual.yaml:N)\n"
        "ok  pi4b:onboard/chain  pi4b-1:onboard, pi4b-2:onboard, pi4b-1:usb,\n"
        "                        pi5-1:onboard\n"
        "                        limit 94% (lab/virtual.yaml:N)\n"
        "ok  pi5:onboard/chain   pi5-1:onboard, cm4-1:pcie, pi5-1:pcie, pi4b-2:usb\n"
        "                        limit 94% (lab/virtual.yaml:N)\n"
        "\n"
        "lab virtual: 3 of 3 combinations possible"
    )
    small = lab_of_two(virtual)
    text = "\n".join(matrix_text(small, entries(small, [parse_topology("pair"), parse_topology("incast:2")], ["pi3b"])))
    assert re.sub(r"yaml:\d+", "yaml:N", text) == (
        "board:NIC     pair  incast:2\n"
        "pi3b:onboard  ok    -\n"
        "pi3b:ax88179  ok    -\n"
        "\n"
        "    combination            interfaces, the one under test first\n"
        "ok  pi3b:onboard/pair      pi3b-1:onboard, pi3b-2:onboard\n"
        "                           limit 94% (lab/virtual.yaml:N)\n"
        "ok  pi3b:ax88179/pair      pi3b-1:usb, pi3b-2:onboard\n"
        "                           limit tx 300.0 Mbit/s (lab/virtual.yaml:N)\n"
        "                           limit rx 300.0 Mbit/s (lab/virtual.yaml:N)\n"
        "-   pi3b:onboard/incast:2  incast:2 needs 3 nodes that reach each other over\n"
        "                           switch sw1, but lab virtual has only pi3b-1 and\n"
        "                           pi3b-2 there\n"
        "-   pi3b:ax88179/incast:2  incast:2 needs 3 nodes that reach each other over\n"
        "                           switch sw1, but lab virtual has only pi3b-1 and\n"
        "                           pi3b-2 there\n"
        "\n"
        "lab virtual: 2 of 4 combinations possible"
    )


def lab_of_two(lab: Lab) -> Lab:
    nodes = {name: node for name, node in lab.nodes.items() if name.startswith("pi3b")}
    return Lab(lab.name, lab.file, nodes, lab.switches, lab.limits)


def test_all_means_the_largest_of_each_kind_that_the_lab_can_do(virtual: Lab) -> None:
    found = [topology.name for topology in largest(virtual)]
    assert found == ["pair", "pairs:3", "incast:5", "outcast:5", "mesh:6", "chain", "opposed"]
    small = [topology.name for topology in largest(lab_of_two(virtual))]
    assert small == ["pair", "pairs:2", "incast:2", "outcast:2", "mesh:3", "chain", "opposed"], "the least of the rest"
    assert len(small) == len(KINDS)


def test_ports_that_count_on_are_a_range() -> None:
    assert ranges(["p1", "p2", "p3", "p5", "lan", "Gi1/0/9", "Gi1/0/10"]) == ["p1-p3", "p5", "lan", "Gi1/0/9-Gi1/0/10"]
    assert ranges([]) == []


def entry(board: str, nic: str, possible: bool = True) -> MatrixEntry:
    return MatrixEntry(CombinationId(board, nic, "pair"), object() if possible else None)  # type: ignore[arg-type]


ENTRIES = [entry("pi4b", "onboard"), entry("pi4b", "rtl8153"), entry("pi5", "onboard"), entry("cm4", "onboard", False)]


def test_github_gets_one_job_for_each_board_that_can_be_measured() -> None:
    line = job_matrix("github", ENTRIES, ())
    labels = ["self-hosted", "network-lab"]
    assert json.loads(line) == {"include": [{"board": "pi4b", "runner": labels}, {"board": "pi5", "runner": labels}]}
    # One line of $GITHUB_OUTPUT.
    assert "\n" not in line


def test_gitlab_gets_variables() -> None:
    assert json.loads(job_matrix("gitlab", ENTRIES, ["rack-2"])) == [{"BOARD": ["pi4b", "pi5"], "RUNNER": ["rack-2"]}]


@pytest.mark.parametrize(
    ("form", "entries", "runners", "message"),
    [
        ("github", ENTRIES[3:], (), "the lab can measure none of these combinations"),
        ("gitlab", ENTRIES, ("a", "b"), "--runner: a, b: a variable of GitLab holds one tag; expected one --runner"),
        ("github", [entry(f"b{n}", "n") for n in range(257)], (), "257 boards are more than 256 jobs"),
    ],
)
def test_what_a_ci_system_would_refuse(
    form: str, entries: list[MatrixEntry], runners: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        job_matrix(form, entries, runners)
