"""Gates in the virtual lab on a switch that is managed by SNMP, with net-snmp's own agent in the switch.

The switch passes packets before they are cut into frames, and its agent counts those. So the traffic is UDP.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.lab.switch.managed_switch import open_switch
from pytest_pinet.lab.switch.switchport import Capability, Neighbour
from tests.support.doctor_command import doctor
from tests.support.gate_project import (
    LAB_FILE,
    GateLab,
    NewProject,
    Project,
    lab_text,
    lab_up,
    project_maker,
)
from tests.support.snmp_tables_agent import FIRST
from tests.support.snmpd_agent import BRIDGE_AND_POE, CONFIGURATION, COUNTERS, PORT, SNMPD, TABLES_AGENT, V3, passed
from tests.support.waiting import wait_until

_FOLDER = "/run/snmp"
_LLDPD = "lldpd -k -I 'p*' -O /run/pinet/lldpd.conf"
# lldpd leaves the file of its pid behind.
_STOP_LLDPD = (
    "pid=$(cat /run/lldpd.pid); kill $pid; n=0;"
    " while kill -0 $pid 2>/dev/null && [ $n -lt 100 ]; do sleep 0.05; n=$((n + 1)); done"
)
_START = f"""\
cd {_FOLDER} && export MIBS= SNMPCONFPATH={_FOLDER} SNMP_PERSISTENT_DIR={_FOLDER}/kept PATH=$PATH:/usr/sbin:/sbin
snmpd -C -c {_FOLDER}/snmpd.conf -p {_FOLDER}/pid -LE 4 -Lf {_FOLDER}/log >{_FOLDER}/output 2>&1 </dev/null
{_STOP_LLDPD}; {_LLDPD} -x -X tcp:127.0.0.1:1705 >/dev/null 2>&1 </dev/null
"""
_STOP = f"kill $(cat {_FOLDER}/pid); {_STOP_LLDPD}; rm -rf {_FOLDER}; {_LLDPD} >/dev/null 2>&1 </dev/null"
_POLL_S = 0.05


class SwitchAgent:
    """The agent of the switch ``sw1``."""

    def __init__(self, lab: GateLab) -> None:
        self._lab = lab

    def execute(self, command: str, text: str = "") -> str:
        """Run a command on the switch, with this text as its input."""
        port = self._lab.environment["LG_SWITCH_SW1"].rpartition(":")[2]
        argv = ["ssh", "-F", "none", "-i", self._lab.environment["LG_KEYFILE"], "-p", port, "-oLogLevel=ERROR"]
        argv += ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "root@127.0.0.1", command]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def lab_file(self, folder: Path, text: str, **settings: str) -> Path:
        """Write a lab file of the running lab in which ``sw1`` is managed by SNMP with these settings."""
        old = '      address: !template "$LG_SWITCH_SW1"\n'
        lines = "".join(f"      {name}: {value}\n" for name, value in settings.items())
        new = f'      address: snmp://127.0.0.1:{PORT}\n      proxy: !template "$LG_SWITCH_SW1"\n{lines}'
        assert text.count(old) == text.count("backend: linux") == 1
        file = folder / "lab.yaml"
        file.write_text(text.replace("backend: linux", "backend: snmp").replace(old, new))
        return file


@contextmanager
def lab_snmpd(lab: GateLab, mode: str, fed: Mapping[str, str] | None = None) -> Iterator[SwitchAgent]:
    """Run snmpd in the switch ``sw1``, with the tables of a mode of ``snmp_tables_agent``.

    ``fed`` has the node that each port powers. Its outlet follows the PoE setting of the port, which is off at first.
    """
    agent = SwitchAgent(lab)
    numbers = {str(FIRST - 1 + int(port.removeprefix("p"))): node for port, node in (fed or {}).items()}
    files = {
        "tables.py": TABLES_AGENT.read_text(),
        "snmpd.conf": CONFIGURATION.format(port=PORT)
        + passed(f"/usr/bin/env python3 {_FOLDER}/tables.py", mode, (*BRIDGE_AND_POE, *COUNTERS)),
        "poe": json.dumps(dict.fromkeys(numbers, 2)),
    }
    for name, text in files.items():
        agent.execute(f"mkdir -p {_FOLDER} && cat >{_FOLDER}/{name}", text)
    agent.execute(_START)
    ended = Event()
    feeding = Thread(target=_feed, args=(lab, agent, numbers, ended))
    feeding.start()
    try:
        yield agent
    finally:
        ended.set()
        feeding.join()
        agent.execute(_STOP)


def _feed(lab: GateLab, agent: SwitchAgent, numbers: Mapping[str, str], ended: Event) -> None:
    """Let the outlets of nodes follow the PoE of their ports."""
    seen = dict.fromkeys(numbers, 2)
    while numbers and not ended.wait(_POLL_S):
        with suppress(ValueError):
            now = json.loads(agent.execute(f"cat {_FOLDER}/poe"))
            for number, node in numbers.items():
                if now[number] != seen[number]:
                    seen[number] = now[number]
                    lab.switch_power(now[number] == 1, node)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not SNMPD, reason="needs snmpd"),
]
WIRED = "switch sw1 is used as it is wired, because this community may only read it"
TEST = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_well(link, gate):
    gate.udp(link, bitrate="20 Mbit/s", duration=2, warmup=1, min="1 Mbit/s")
"""
READ_ONLY = (
    TEST
    + """

@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_that_cuts_the_link(link):
    switch = link.switches["sw1"]
    switch.set_admin("p1", False)
"""
)


def test_a_gate_on_a_switch_that_can_only_be_read(new_project: NewProject, gate_lab: GateLab, tmp_path: Path) -> None:
    groups = gate_lab.port_groups()
    project = new_project({"test_read_only.py": READ_ONLY})
    with lab_snmpd(gate_lab, "honest") as agent:
        file = agent.lab_file(tmp_path, gate_lab.text_without_launcher(), community="reads")
        output = project.pytest("-rs", lab_file=file, **gate_lab.environment)  # type: ignore[arg-type]  # none is a time
        output.assert_outcomes(passed=1, skipped=1)
        # A slow start on a busy machine is marginal, and has the note, too.
        (result,) = (one for one in project.results["results"] if one["directions"])
        assert result["verdict"] in ("pass", "marginal")
        assert "switch sw1 was used as it is wired, because this community may only read it" in result["notes"]
        # The octets of both switch ports stand beside the result.
        assert len(result["cables"]) == 2
        assert "because this community may only read it" in output.stdout.str()
        answer = doctor(gate_lab, "pi3b-2", file=file)
    assert gate_lab.port_groups() == groups
    assert answer.wrong == {}
    assert [one["message"] for one in answer.findings if one["check"] == "switches"] == [WIRED]


def result_of(lab: GateLab, project: Project, folder: Path, mode: str) -> dict[str, Any]:
    """Return the only result of a gate on a switch whose agent has this mode."""
    with lab_snmpd(lab, mode) as agent:
        file = agent.lab_file(folder, lab.text_without_launcher(), community="writes")
        project.pytest(lab_file=file, **lab.environment)  # type: ignore[arg-type]  # none is a time
    (result,) = project.results["results"]
    found: dict[str, Any] = result
    return found


def test_a_switch_that_says_yes_and_does_nothing_is_named(
    new_project: NewProject, gate_lab: GateLab, tmp_path: Path
) -> None:
    result = result_of(gate_lab, new_project({"test_it.py": TEST}), tmp_path, "nothing")
    assert result["verdict"] == "error"
    assert "switch sw1 accepted VLAN 39" in str(result["message"])
    assert "but did not create it" in " ".join(str(result["message"]).split())
    assert not result["directions"]


def test_stale_counters_are_waited_for(new_project: NewProject, gate_lab: GateLab, tmp_path: Path) -> None:
    result = result_of(gate_lab, new_project({"test_it.py": TEST}), tmp_path, "stale")
    assert result["verdict"] in ("pass", "marginal"), result["message"]
    payload = sum(sample["bytes"] for one in result["directions"]["tx"]["connections"] for sample in one["samples"])
    dut, peer = result["cables"]
    # Counters that are four seconds old lack most of the traffic.
    for counted in (dut["switch"]["rx_octets"], peer["switch"]["tx_octets"], dut["node"]["tx_bytes"]):
        assert payload < counted < 1.3 * payload


def test_the_neighbours_of_ports_are_read_by_snmp(
    gate_lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From lldpd as an AgentX subagent of snmpd, and from the addresses that the switch learned."""
    for name, value in gate_lab.environment.items():
        monkeypatch.setenv(name, value)
    gate_lab.switch_power(True, "pi3b-1", "pi3b-2")
    gate_lab.await_boot("pi3b-1", "pi3b-2")
    try:
        with lab_snmpd(gate_lab, "learned") as agent:
            file = agent.lab_file(tmp_path, gate_lab.text_without_launcher(), community="reads")
            switch = open_switch(load(file), "sw1")
            try:
                wait_until("LLDP", lambda: _systems(switch.neighbours(["p3"])["p3"]) == {"pi3b-2"})
                gate_lab.execute(
                    "pi3b-1", "ping -c1 -W1 -b 255.255.255.255 >/dev/null 2>&1 || ping6 -c1 ff02::1%eth0 || :"
                )
                found = switch.neighbours(["p1", "p3", "p16"])
            finally:
                switch.close()
    finally:
        gate_lab.switch_power(False, "pi3b-1", "pi3b-2")
    assert _systems(found["p1"]) == {"pi3b-1"}
    assert _systems(found["p3"]) == {"pi3b-2"}
    assert found["p16"] == frozenset()
    macs = {one.mac for one in found["p1"] if one.source is Capability.FDB}
    assert macs


def _systems(neighbours: frozenset[Neighbour]) -> set[str | None]:
    return {one.system for one in neighbours if one.source is Capability.LLDP}


def powered_by_poe(text: str, node: str) -> str:
    """Return this lab file with a node that a PoE port of the switch powers."""
    old = f"      RemotePlace: {{name: {node}}}\n    drivers: *drivers\n"
    assert text.count(old) == 1
    return text.replace(
        old,
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
    )


RESET = """
import pytest

@pytest.mark.pinet(board="{board}", nic="onboard")
def test_first(link, gate):
    assert link.dut.carries_management is {same}
    gate.udp(link, bitrate="20 Mbit/s", duration=1, min="1 Mbit/s")
    fed = next(end for end in link.ends if end.endpoint.node.name == "{node}")
    assert link.switches["sw1"].state(fed.port.port).poe

@pytest.mark.pinet(board="{board}", nic="onboard", reset=True)
def test_reset(link, gate):
    gate.udp(link, bitrate="20 Mbit/s", duration=1, min="1 Mbit/s")
"""


@contextmanager
def one_port_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    file = LAB_FILE.with_name("single-port.yaml")
    with lab_up(tmp_path_factory.mktemp("poe-lab") / file.name, lab_text(file)) as lab:
        yield lab


@pytest.mark.parametrize(
    ("node", "port", "board", "same"),
    [
        pytest.param("pi3b-2", "p3", "pi3b", False, id="separate"),
        # ssh, the traffic and the power come by one port.
        pytest.param("pi4b-1", "p2", "pi4b", True, id="same"),
    ],
)
def test_a_gate_power_cycles_a_board_by_the_poe_of_its_switch(
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    node: str,
    port: str,
    board: str,
    same: bool,
) -> None:
    if same:
        with one_port_lab(tmp_path_factory) as lab:
            check_power_by_poe(lab, tmp_path_factory, tmp_path, (node, port, board, same))
    else:
        check_power_by_poe(request.getfixturevalue("gate_lab"), tmp_path_factory, tmp_path, (node, port, board, same))


def check_power_by_poe(
    lab: GateLab, tmp_path_factory: pytest.TempPathFactory, folder: Path, case: tuple[str, str, str, bool]
) -> None:
    node, port, board, same = case
    groups = lab.port_groups()
    project = project_maker(tmp_path_factory, lab)({"test_reset.py": RESET.format(node=node, board=board, same=same)})
    with lab_snmpd(lab, "honest", {port: node}) as agent:
        text = powered_by_poe(lab.text_without_launcher(), node)
        file = agent.lab_file(folder, text, **V3)
        project.pytest(lab_file=file, **lab.environment).assert_outcomes(passed=2)  # type: ignore[arg-type]  # none is a time
        lines = (project.path / ".pinet" / "latest" / "console" / f"{node}.log").read_text().splitlines()
        assert sum("Booting Linux on physical CPU" in line for line in lines) == 2
        assert [line.partition("-- ")[2] for line in lines if "-- power" in line][:3] == [
            "power on",
            "power off",
            "power on",
        ]
        # Off at the end of the run, as the node itself says. No port has moved.
        wait_until("the board to be off", lambda: lab.nodes_on() == set())
        assert lab.port_groups() == groups
        answer = doctor(lab, node, file=file)
        assert answer.wrong == {}
        wait_until("the board to be off", lambda: lab.nodes_on() == set())
