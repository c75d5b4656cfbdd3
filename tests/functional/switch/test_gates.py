"""Gates in the virtual lab: on a switch that can only be read, and with a board that the switch's PoE powers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.doctor_command import copy_with, doctor
from tests.support.gate_project import LAB_FILE, GateLab, NewProject, lab_text, lab_up, project_maker

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]
WRITES = '      write_community: !template "$LG_SNMP_COMMUNITY"\n'
WIRED = "switch sw1 is used as it is wired, because this community may only read it"
READ_ONLY = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_well(link, gate):
    gate.tcp(link, duration=1, bitrate="5 Mbit/s", min="1 Mbit/s")

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_that_cuts_the_link(link):
    switch = link.switches["sw1"]
    switch.set_admin("p1", False)
"""


def test_a_gate_on_a_switch_that_can_only_be_read(new_project: NewProject, gate_lab: GateLab, tmp_path: Path) -> None:
    file = copy_with(gate_lab, tmp_path, [(WRITES, "")])
    groups = gate_lab.port_groups()
    project = new_project({"test_read_only.py": READ_ONLY})
    output = project.pytest("-rs", lab_file=file, **gate_lab.environment)  # type: ignore[arg-type]  # none is a time
    output.assert_outcomes(passed=1, skipped=1)
    # A slow start on a busy machine is marginal, and has the note, too.
    (result,) = (one for one in project.results["results"] if one["directions"])
    assert result["verdict"] in ("pass", "marginal")
    assert "switch sw1 was used as it is wired, because this community may only read it" in result["notes"]
    # The octets of both switch ports stand beside the result.
    assert len(result["cables"]) == 2
    assert "because this community may only read it" in output.stdout.str()
    assert gate_lab.port_groups() == groups
    answer = doctor(gate_lab, "pi3b-2", file=file)
    assert answer.wrong == {}
    assert [one["message"] for one in answer.findings if one["check"] == "switches"] == [WIRED]


def poe(node: str, board: str) -> list[tuple[str, str]]:
    """Return the changes of a lab file that let a PoE port of the switch power a node, set by SNMP version 3."""
    return [
        (
            '      community: !template "$LG_SNMP_READ_COMMUNITY"\n',
            '      version: 3\n      user: !template "$LG_SNMP_USER"\n      auth_key: !template "$LG_SNMP_AUTH_KEY"\n',
        ),
        (WRITES, '      priv_key: !template "$LG_SNMP_PRIV_KEY"\n'),
        (
            f"      RemotePlace: {{name: {node}}}\n    drivers: *drivers\n",
            f"      RemotePlace: {{name: {node}}}\n"
            "    drivers:\n"
            "      PoePowerDriver: {delay: 3}\n"
            "      PiSerialDriver: {}\n"
            "      PiShellDriver:\n"
            "        prompt: '(?:\\x1b\\[[?]2004h)?root@\\S+:.*# '\n"
            "        login_prompt: ' login: '\n"
            "        username: root\n"
            '        password: !template "$LG_CONSOLE_PASSWORD"\n'
            '      PiSSHDriver: {keyfile: !template "$LG_KEYFILE"}\n'
            "      PiStrategy: {}\n",
        ),
        (f"    {node}:\n      board: {board}\n", f"    {node}:\n      board: {board}\n      outlet: poe_mib\n"),
    ]


RESET = """
import pytest

@pytest.mark.pinet(board="{board}", nic="onboard")
def test_first(link, gate):
    assert link.dut.carries_management is {same}
    gate.tcp(link, duration=1, bitrate="50 Mbit/s", min="10 Mbit/s")
    fed = next(end for end in link.ends if end.endpoint.node.name == "{node}")
    assert link.switches["sw1"].state(fed.port.port).poe

@pytest.mark.pinet(board="{board}", nic="onboard", reset=True)
def test_reset(link, gate):
    gate.tcp(link, duration=1, bitrate="50 Mbit/s", min="10 Mbit/s")
"""


@pytest.mark.parametrize(
    ("lab_file", "node", "board", "same"),
    [
        pytest.param(LAB_FILE, "pi3b-2", "pi3b", False, id="separate"),
        # ssh, the traffic and the power come by one port.
        pytest.param(LAB_FILE.with_name("single-port.yaml"), "pi4b-1", "pi4b", True, id="same"),
    ],
)
def test_a_gate_power_cycles_a_board_by_the_poe_of_its_switch(
    tmp_path_factory: pytest.TempPathFactory, lab_file: Path, node: str, board: str, same: bool
) -> None:
    text = lab_text(lab_file)
    for old, new in poe(node, board):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    with lab_up(tmp_path_factory.mktemp("poe-lab") / lab_file.name, text) as lab:
        groups = lab.port_groups()
        tests = {"test_reset.py": RESET.format(node=node, board=board, same=same)}
        project = project_maker(tmp_path_factory, lab)(tests)
        project.pytest().assert_outcomes(passed=2)
        lines = (project.path / ".pinet" / "latest" / "console" / f"{node}.log").read_text().splitlines()
        assert sum("Booting Linux on physical CPU" in line for line in lines) == 2
        assert [line.partition("-- ")[2] for line in lines if "-- power" in line][:3] == [
            "power on",
            "power off",
            "power on",
        ]
        # Off at the end of the run, as the switch's own state says. No port has moved.
        assert lab.nodes_on() == set()
        assert lab.port_groups() == groups
        answer = doctor(lab, node)
        assert answer.wrong == {}
