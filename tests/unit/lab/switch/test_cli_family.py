"""A user's own switch family: its valid content, and the messages on mistakes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_pinet.catalogue.load import built_in
from pytest_pinet.config.labfile import load as load_lab
from pytest_pinet.errors import ConfigError, SwitchError, Where
from pytest_pinet.lab.switch import cli_family
from pytest_pinet.lab.switch.cli import CliSwitch, connect
from pytest_pinet.lab.switch.cli_family import Family
from pytest_pinet.lab.switch.cli_session import RefusedError
from pytest_pinet.lab.switch.switchport import Capability, Neighbour, PortState
from pytest_pinet.model.lab import Switch

WHERE = Where("lab.yaml", 12)
OWN = """\
zyxel:
  title: Zyxel GS1920
  device_type: zyxel_os
  refused: ['^Error']
  show:
    link:
      - command: show interface {port}
        find: ['Link\\s+:(?P<carrier>\\d+)']
"""
Load = Callable[[str], Family]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load the first family of a text."""

    def from_text(text: str) -> Family:
        file = tmp_path / "own.yaml"
        file.write_text(text)
        return cli_family.load(text.split(":")[0], WHERE, str(file))

    return from_text


def test_an_own_family_can_do_what_it_has_commands_for(load: Load) -> None:
    assert load(OWN).capabilities == {Capability.LINK}


def test_an_own_family_like_another(load: Load) -> None:
    family = load("old_hp: {like: hp_procurve, show: {poe: null}, set: {up: ['interface {port} open']}}\n")
    assert family.device_type == "hp_procurve"
    assert family.set.up == ["interface {port} open"]
    assert family.set.down == ["interface {port} disable"]
    assert family.capabilities == set(Capability) - {Capability.POE}


def test_an_own_correction_of_a_built_in_family(load: Load) -> None:
    family = load("cisco_ios: {like: cisco_ios, title: Catalyst with our banner}\n")
    assert (family.title, family.device_type) == ("Catalyst with our banner", "cisco_ios")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title:", "titel:", "own.yaml:1: zyxel lacks the key 'title'; did you mean 'titel'?"),
        ("    link:", "    lnk:", "own.yaml:6: unknown key 'lnk' in zyxel.show, did you mean 'link'?"),
        ("  device_type: zyxel_os\n", "", "own.yaml:1: zyxel lacks the key 'device_type'"),
        ("'^Error'", "'^(Error'", "own.yaml:4: zyxel.refused[0]: '^(Error' is not a regular expression: missing ), "),
        (
            "(?P<carrier>",
            "(?P<carier>",
            "own.yaml:7: zyxel.show.link: 'Link\\s+:(?P<carier>\\d+)': unknown group 'carier'",
        ),
        (
            "{port}",
            "{prot}",
            "own.yaml:7: zyxel.show.link: 'show interface {prot}': unknown placeholder '{prot}', did you",
        ),
        (" {port}", "", "needs a group 'port', since 'show interface' has no {port}"),
        ("{port}", "{port", "own.yaml:7: zyxel.show.link: 'show interface {port': expected '}' before end of string"),
        ("    link:", "    vlan:", "unknown group 'carrier'"),
        ("['^Error']", "'^Error'", "own.yaml:4: zyxel.refused: expected a list, got '^Error'"),
    ],
)
def test_mistakes(load: Load, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(OWN.replace(old, new))
    assert message in re.sub(r"^\S*/(?=own\.yaml)", "", str(error.value))


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("up: [enable]", "own.yaml:9: zyxel.set.up: the placeholder {port} is missing in 'enable'"),
        ("up: ['enable {port}']", "own.yaml:9: zyxel.set: 'down' is missing; expected both 'up' and 'down'"),
        ("vlan: ['{port} {vlan}']", "'remove_vlan' is missing; expected both 'vlan' and 'remove_vlan'"),
        ("vlan: ['port {port}']", "zyxel.set.vlan: the placeholder {vlan} is missing in 'port {port}'"),
        ('up: ["a\\nb {port}"]', "zyxel.set.up[0]: expected one command, got 'a b {port}'"),
    ],
)
def test_mistakes_in_a_family_file(load: Load, commands: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(f"{OWN}  set: {{{commands}}}\n" if '"' not in commands else f"{OWN}  set:\n    {commands}\n")
    assert message in re.sub(r"^\S*/(?=own\.yaml)", "", str(error.value))


def test_needed_groups(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"zyxel\.show\.counters: no pattern has the group 'tx_octets'"):
        load(f"{OWN}    counters: [{{command: 'show {{port}}', find: ['(?P<rx_octets>[0-9]+)']}}]\n")


def test_unknown_family(load: Load) -> None:
    with pytest.raises(ConfigError) as error:
        cli_family.load("cisco_is", WHERE)
    assert str(error.value) == (
        "lab.yaml:12: unknown switch family 'cisco_is', did you mean 'cisco_ios'? (accepted: cisco_ios, cisco_s300, "
        "hp_procurve, mikrotik_routeros, netgear_prosafe, tplink_jetstream, ubiquiti_edgeswitch)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {like: b}\nb: {like: a}\n", "these switch families are like each other: a -> b -> a; in one of them"),
        ("a: {like: a}\n", "these switch families are like each other: a -> a; in one of them, replace"),
        ("a: {like: b}\nb: {like: c}\nc: {like: a}\n", "like each other: a -> b -> c -> a; in one of them, replace"),
        ("a: {like: cisco}\n", "unknown switch family 'cisco'"),
        ("a: {like: 7}\n", "unknown switch family '7'"),
        ("a: {like: b}\nb: 5\n", "b: expected a mapping, got '5'"),
        ("a: 7\n", "a: expected a mapping, got '7'"),
    ],
)
def test_like_an_unknown_family(load: Load, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(text)


def test_a_missing_family_file() -> None:
    with pytest.raises(ConfigError, match=r"^/nowhere/own\.yaml: .* exists; expected a file with switch"):
        cli_family.load("zyxel", WHERE, "/nowhere/own.yaml")


def test_without_netmiko(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "netmiko", None)
    settings = {"family": "cisco_ios", "address": "ssh://admin@127.0.0.1"}
    with pytest.raises(ConfigError) as error:
        connect(Switch("sw1", "cli", ("Gi1/0/1",), settings, WHERE), settings)
    assert str(error.value) == (
        "lab.yaml:12: switch 'sw1' with backend 'cli' needs netmiko: pip install 'pytest-pinet[cli]'"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"family": "cisco_ios", "address": "ssh://10.0.0.2"},
            "expected `address: ssh://user@host:port`, got 'ssh://10.0",
        ),
        ({"family": "cisco_ios"}, "needs `family:` and `address:`"),
        ({"family": "cisco_ios", "address": "a@b", "timeout": "soon"}, "switch 'sw1', timeout: 'soon' is not"),
    ],
)
def test_settings(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        connect(Switch("sw1", "cli", ("Gi1/0/1",), settings, WHERE), settings)
    assert message in str(error.value)
    assert str(error.value).startswith("lab.yaml:12: ")


LAB = """\
pinet:
  name: two
  switches:
    sw1:
      backend: cli
      ports: [Gi1/0/1, Gi1/0/2]
      family: cisco_ios
      address: ssh://admin@10.0.0.2
      password: !template "$LG_SW1_PASSWORD"
      timeout: 30
  nodes:
    a: {board: pi4b, interfaces: {onboard: {port: sw1/Gi1/0/1}}}
    b: {board: pi4b, interfaces: {onboard: {port: sw1/Gi1/0/2}}}
"""


def test_in_the_lab_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LG_SW1_PASSWORD", "x")
    file = tmp_path / "lab.yaml"
    file.write_text(LAB)
    switch = load_lab(file).switches["sw1"]
    assert switch.ports == ("Gi1/0/1", "Gi1/0/2")
    assert switch.settings["timeout"] == "30"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("      family: cisco_ios\n", "", "4: pinet.switches.sw1 lacks the key 'family', which backend 'cli' needs"),
        ("password", "pasword", "9: unknown key 'pasword' in pinet.switches.sw1, did you mean 'password'?"),
        ("timeout: 30", "timeout: soon", "10: pinet.switches.sw1.timeout: 'soon' is not a duration"),
    ],
)
def test_mistakes_in_the_lab_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB.replace(old, new))
    with pytest.raises(ConfigError) as error:
        load_lab(file)
    assert message in str(error.value)


def test_the_path_of_own_families_is_relative_to_the_lab_file(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN.replace("title:", "titel:"))
    where = Where(str(tmp_path / "lab.yaml"), 12)
    settings = {"family": "zyxel", "address": "ssh://admin@127.0.0.1", "families": "own.yaml"}
    with pytest.raises(ConfigError, match=r"own\.yaml:1: zyxel lacks the key 'title'"):
        connect(Switch("sw1", "cli", ("1",), settings, where), settings)


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
