"""Each family's commands, and the values read from answers that real command lines print."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_pinet.catalogue.load import built_in
from pytest_pinet.errors import SwitchError, Where
from pytest_pinet.lab.switch import cli_family
from pytest_pinet.lab.switch.cli import CliSwitch
from pytest_pinet.lab.switch.cli_session import RefusedError
from pytest_pinet.lab.switch.switchport import Capability, Neighbour, PortState
from pytest_pinet.model.lab import Switch

WHERE = Where("lab.yaml", 12)
SAMPLES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("switch_family_samples.yaml").read_text())


class Recorded:
    """A switch that has only these answers and rejects all other commands."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers
        self.commands: list[str] = []
        self.sent: list[str] = []

    def ask(self, command: str) -> str:
        self.commands.append(command)
        if command not in self.answers:
            raise RefusedError(f"no answer to {command!r}")
        return self.answers[command]

    def change(self, commands: Iterable[str]) -> None:
        self.sent += commands

    def close(self) -> None:
        pass


def switch_of(name: str, **answers: str) -> tuple[CliSwitch, Recorded]:
    sample = SAMPLES[name]
    session = Recorded({**sample["shows"], **answers})
    switch = Switch("sw1", "cli", tuple(sample["ports"]), {}, WHERE)
    return CliSwitch(switch, cli_family.load(name, WHERE), session), session


def test_each_family_has_samples() -> None:
    assert sorted(SAMPLES) == built_in()
    assert len(SAMPLES) >= 5


@pytest.mark.parametrize("name", SAMPLES)
class TestFamily:
    def test_states(self, name: str) -> None:
        switch, _ = switch_of(name)
        expected = {port: PortState(**state) for port, state in SAMPLES[name]["states"].items()}
        assert switch.states(expected) == expected

    def test_counters(self, name: str) -> None:
        switch, _ = switch_of(name)
        if "counters" not in SAMPLES[name]:
            assert Capability.COUNTERS not in switch.capabilities
            return
        expected = SAMPLES[name]["counters"]
        for port, counters in switch.counters(expected).items():
            found = asdict(counters)
            assert found.pop("time_s") > 0
            # Octets on a command line are not reported as frames.
            assert (found.pop("frames"), found.pop("bits")) == (False, 64)
            assert {key: value for key, value in found.items() if value is not None} == expected[port]

    def test_neighbours(self, name: str) -> None:
        switch, _ = switch_of(name)
        for port, wanted in SAMPLES[name]["neighbours"].items():
            expected = {Neighbour(**{**neighbour, "source": Capability(neighbour["source"])}) for neighbour in wanted}
            assert switch.neighbours([port])[port] == expected

    def test_commands(self, name: str) -> None:
        switch, session = switch_of(name)
        moves = SAMPLES[name]["moves"]
        switch.configure({moves["port"]: PortState(admin_up=True, vlan=moves["to"], poe=True)})
        assert session.sent == SAMPLES[name]["sent"]
        session.sent.clear()
        switch.remove_vlan(moves["to"])
        assert session.sent == SAMPLES[name]["removes"]

    def test_no_command_is_sent_if_the_port_is_in_the_vlan_already(self, name: str) -> None:
        switch, session = switch_of(name)
        moves = SAMPLES[name]["moves"]
        switch.configure({moves["port"]: PortState(vlan=moves["from"])})
        assert session.sent == []

    def test_vlan_1_is_never_created(self, name: str) -> None:
        switch, session = switch_of(name)
        switch.configure({SAMPLES[name]["moves"]["port"]: PortState(vlan=1)})
        assert not {"vlan 1", "vlan database"} & set(session.sent)
        assert session.sent


def test_a_switch_without_poe_or_lldp_keeps_its_other_capabilities() -> None:
    switch, session = switch_of("cisco_ios")
    del session.answers["show power inline"], session.answers["show lldp neighbors detail"]
    assert switch.capabilities == set(Capability) - {Capability.POE, Capability.LLDP}
    assert switch.states(["Gi1/0/1"])["Gi1/0/1"].poe is None


def test_one_command_shows_all_ports() -> None:
    switch, session = switch_of("cisco_ios")
    assert switch.capabilities
    session.commands.clear()
    switch.states(SAMPLES["cisco_ios"]["ports"])
    assert session.commands == ["show interfaces status", "show power inline"]


def test_a_trunk_port_is_not_changed() -> None:
    switch, session = switch_of("cisco_ios")
    with pytest.raises(
        SwitchError, match=r"switch sw1 shows no access VLAN of port Te1/1/1 in its answer to 'show inter"
    ):
        switch.configure({"Te1/1/1": PortState(vlan=3902)})
    assert session.sent == []


def test_a_pvid_without_effect_is_not_reported_as_a_vlan() -> None:
    switch, session = switch_of("mikrotik_routeros")
    with pytest.raises(SwitchError, match="shows no access VLAN of port ether1"):
        switch.configure({"ether1": PortState(vlan=3902)})
    assert session.sent == []


def test_a_port_that_is_not_there() -> None:
    switch, _ = switch_of("cisco_ios")
    with pytest.raises(SwitchError, match="switch sw1 shows no port Gi1/0/9") as error:
        switch.states(["Gi1/0/9"])
    assert error.value.act == "correct the ports of sw1 in lab.yaml:12"


def test_counters_in_an_unknown_format() -> None:
    switch, _ = switch_of("hp_procurve", **{"show interfaces 1": "Octets in: 5\n"})
    with pytest.raises(
        SwitchError, match=r"switch sw1 shows no byte counters of port 1 in its answer to 'show interfaces 1'"
    ):
        switch.counters(["1"])


def test_the_answer_for_one_port_is_not_used_for_another() -> None:
    switch, _ = switch_of("ubiquiti_edgeswitch", **{"show interface ethernet 0/2": ""})
    with pytest.raises(SwitchError, match="no byte counters of port 0/2"):
        switch.counters(["0/1", "0/2"])


@pytest.mark.parametrize(
    ("name", "answer", "line"),
    [
        ("cisco_ios", "     ^\n% Invalid input detected at '^' marker.\n", "% Invalid input detected at '^' marker."),
        ("cisco_ios", "%Failed to commit extended VLAN(s) changes.\n", "%Failed to commit extended VLAN(s) changes."),
        ("cisco_ios", "%LINK-3-UPDOWN: Interface Gi1/0/1, changed state to up\n", None),
        ("cisco_s300", "% Unrecognized command\n", "% Unrecognized command"),
        ("cisco_s300", "%LINK-W-Down:  gi3\n", None),
        ("cisco_s300", "% VLAN 3900 already exists\n", None),
        ("hp_procurve", "Invalid input: untaged\n", "Invalid input: untaged"),
        (
            "hp_procurve",
            "Module not present for port or invalid port: 99\n",
            "Module not present for port or invalid port: 99",
        ),
        ("hp_procurve", "VLAN 3900 not found.\n", None),
        ("mikrotik_routeros", "bad command name put (line 1 column 1)\n", "bad command name put (line 1 column 1)"),
        ("mikrotik_routeros", "failure: vlan already added\n", "failure: vlan already added"),
        ("mikrotik_routeros", "no such item\n", "no such item"),
        ("tplink_jetstream", " Error: Bad command\n", "Error: Bad command"),
        ("ubiquiti_edgeswitch", "% Invalid input detected at '^' marker.\n", "% Invalid input detected at '^' marker."),
        ("netgear_prosafe", "Command not found / Incomplete command.\n", "Command not found / Incomplete command."),
    ],
)
def test_refusals(name: str, answer: str, line: str | None) -> None:
    assert cli_family.load(name, WHERE).refusal(answer) == line


def test_no_sample_looks_like_a_refusal() -> None:
    for name, sample in SAMPLES.items():
        family = cli_family.load(name, WHERE)
        assert [command for command, answer in sample["shows"].items() if family.refusal(answer)] == []
