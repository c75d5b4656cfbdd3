"""No value of a lab file or from a board reaches a shell as more than a word."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.load import built_in
from pytest_pinet.config.labfile import resolve
from pytest_pinet.config.schema import LabOfFile, json_schema
from pytest_pinet.config.switches import _SETTINGS
from pytest_pinet.errors import ConfigError, SshError, SwitchError, Where
from pytest_pinet.evidence.nics import parse_board
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.ssh import ssh_words
from pytest_pinet.lab.switch import cli_family
from pytest_pinet.lab.switch.cli import CliSwitch
from pytest_pinet.lab.switch.linux import Bridges, LinuxSwitch
from pytest_pinet.lab.switch.snmp_proxy import SnmpProxy
from pytest_pinet.lab.switch.switchport import PortState
from pytest_pinet.model import forms
from pytest_pinet.model.lab import Names, Switch
from tests.support.hostile import HOSTILE

CANARIES = [text for text in HOSTILE if "canary" in text and "\0" not in text]
# Texts for people, and paths that only Python opens. They are in no command.
FREE = {
    ("boards", "title"), ("boards", "model"), ("boards", "sources"), ("nics", "title"), ("nics", "chip"),
    ("nics", "traits"), ("nics", "sources"), ("baselines",), ("calibration",),
}  # fmt: skip
LAB: dict[str, Any] = {
    "name": "lab", "figures": "measured", "launcher": "virtual", "scale": "auto", "profile": "standard",
    "boards": {"b": {
        "title": "B", "clock_mhz": 1, "cores": 1, "buses": ["usb2"], "onboard": "n", "model": "M", "sources": ["s"],
    }},
    "nics": {"n": {
        "title": "N", "chip": "C", "driver": "d", "bus": "usb2", "speeds_mbps": [100], "mtu_max": 1500,
        "products": ["p"], "traits": ["t"], "sources": ["s"],
    }},
    "switches": {"sw": {"backend": "fixed", "ports": ["p1", "p2"]}},
    "nodes": {"a": {
        "board": "b", "place": "a", "target": "a", "boot_timeout": "9 s", "management": "same", "outlet": "rest",
        "machine": "virt", "clock": "wall", "user": "pi", "manager": "dhcpcd", "runner": False,
        "interfaces": {"usb": {
            "nic": "n", "port": "sw/p1", "device": "eth0", "mac": "dc:a6:32:01:02:03", "bus_info": "usb-1",
            "bus": "usb", "driver": ["d"], "speed": "100M",
        }},
    }},
    "uplinks": {"u": {"ports": ["sw/p1", "sw/p2"], "place": "u", "speed": "1 Gbit/s"}},
    "limits": [{
        "board": "b", "nic": "n", "topology": "pair", "direction": "tx", "min": "9M", "sum": "9M", "share": "9%",
        "fairness": "9%", "tolerance": "9%", "retransmits": "9%", "loss": "9%", "latency": "9 ms", "cpu": "9%",
        "marginal": "9%",
    }],
    "traffic_tool": "iperf3", "http_tool": "wrk", "baselines": "b", "calibration": "c", "domains": {"d": ["a"]},
    "commits": "https://git.kernel.org/linus/{commit}",
}  # fmt: skip
# The parser of limits reads these; the schema leaves them as they are. Both refuse all that is no number.
LIMITS = {"min", "sum", "share", "fairness", "tolerance", "retransmits", "loss", "latency", "cpu"}


KNOWN = Names(load().boards, load().nics, {"sw": Switch("sw", "fixed", ("p1", "p2"), {}, Where("lab.yaml"))})


def read(lab: object) -> LabOfFile:
    return TypeAdapter(LabOfFile).validate_python(lab, context=KNOWN)


def replaced(value: Any, hostile: str) -> Any:
    """Return the data with each text, also each key of the user's own, replaced."""
    if isinstance(value, dict):
        return {key: replaced(inner, hostile) for key, inner in value.items()}
    if isinstance(value, list):
        return [replaced(inner, hostile) for inner in value]
    return hostile if isinstance(value, str) else value


def texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list):
            yield from texts(inner, (*path, key))
        elif isinstance(inner, str):
            yield (*path, key)


def plain(path: Sequence[str | int]) -> tuple[str, ...]:
    """Return a path without the user's own names and without numbers."""
    words = [part for part in path if isinstance(part, str)]
    return (words[0], words[-1]) if len(words) > 1 else (words[0],)


def test_the_lab_has_each_field_of_the_schema() -> None:
    there = {key for path in texts(LAB) for key in path}
    numbers = {"clock_mhz", "cores", "speeds_mbps", "mtu_max", "runner", "max_drops"}
    schema: Any = json_schema()
    for section in (schema["properties"]["pinet"], *schema["$defs"].values()):
        assert set(section["properties"]) <= there | numbers, section["title"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_each_text_field_refuses_it_or_is_no_part_of_a_command(hostile: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(replaced(LAB, hostile))
    refused = {plain([part for part in error["loc"] if part != "[key]"]) for error in caught.value.errors()}
    accepted = {plain(path) for path in texts(LAB)} - refused
    accepted -= {("limits", key) for key in LIMITS}
    if hostile == "x y":
        # Names of places may have blanks. They reach labgrid's coordinator, and no command.
        accepted -= {("nodes", "place"), ("nodes", "target"), ("uplinks", "place")}
    globs = {("limits", key) for key in ("board", "nic", "topology")} | {("domains", "d")}
    assert accepted <= FREE | (globs if re.fullmatch(r"[A-Za-z0-9._:+*?\[\]!-]{1,63}", hostile) else set())


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_key_is_a_name(hostile: str) -> None:
    for section in ("boards", "nics", "switches", "nodes", "uplinks", "domains"):
        with pytest.raises(ValidationError):
            read(LAB | {section: {hostile: next(iter(LAB[section].values()))}})


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_an_accepted_name_is_one_plain_word_for_a_shell(hostile: str) -> None:
    """A shell could change or split only a value of a form with blanks: a place, which is in no command."""
    for form in (forms.NAME, forms.DEVICE, forms.DRIVER, forms.BUS_INFO, forms.PORT, forms.PORT_ADDRESS, forms.USER):
        assert not form.pattern.fullmatch(hostile), form.text
    for parse in (forms.ssh_address, forms.snmp_address):
        with pytest.raises(ValueError, match="expected an address"):
            parse(hostile)
        for text in (f"ssh://{hostile}@host", f"snmp://{hostile}", f"ssh://a@{hostile}:22", f"host:{hostile}"):
            with pytest.raises(ValueError, match="expected an address"):
                parse(text)


@pytest.mark.parametrize("backend", ["cli", "linux", "snmp"])
def test_each_setting_of_a_switch(backend: str, tmp_path: Path) -> None:
    good = {"address": "host"} | ({"family": "cisco_ios"} if backend == "cli" else {})
    # Passed to programs and libraries as single words: only line breaks and other control characters are refused.
    words = {
        "username", "password", "secret", "keyfile", "families", "community", "write_community", "user", "auth_key",
        "priv_key",
    }  # fmt: skip
    for key in _SETTINGS[backend]:
        for hostile in HOSTILE:
            if key in words and hostile.isprintable() and len(hostile) <= 500:
                continue
            lab: dict[str, Any] = {"switches": {"sw": {"backend": backend, "ports": ["p1"], **good, key: hostile}}}
            lab["nodes"] = {"a": {"board": "pi4b", "interfaces": {"onboard": {"port": "sw/p1"}}}}
            with pytest.raises(ConfigError) as caught:
                resolve(yaml_of({"pinet": lab}), "lab.yaml")
            assert str(caught.value).startswith("lab.yaml:")
            assert str(caught.value).isprintable()


def yaml_of(data: object) -> str:
    # YAML reads the surrogates of JSON as such.
    return json.dumps(data, ensure_ascii=True)


class RunningShell:
    """Runs each command here, without programs and in an empty folder: a canary shows what a shell executed."""

    name = "board"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        argv = ["/bin/sh", "-c", command.replace("PATH=$PATH:/usr/sbin:/sbin", ":")]
        done = subprocess.run(
            argv, cwd=self.folder, env={"PATH": "/nowhere"}, capture_output=True, timeout=20, check=False
        )
        assert [path.name for path in self.folder.iterdir()] == [], command
        return Completed(0, "", done.stderr.decode(errors="replace"))


@pytest.mark.parametrize("hostile", CANARIES)
def test_commands_for_a_linux_switch_quote_ports_and_bridges(hostile: str, tmp_path: Path) -> None:
    """Even if the reader of lab files accepted such names."""
    switch = Switch("sw", "linux", (hostile,), {}, Where("lab.yaml"))
    linux = LinuxSwitch(switch, RunningShell(tmp_path), Bridges(1, hostile))  # type: ignore[arg-type]
    state = PortState(admin_up=True, carrier=None, speed_mbps=None, duplex=None, vlan=1, poe=None)
    linux.states([hostile])
    linux.configure({hostile: state})
    linux.remove_vlan(5)
    with pytest.raises((ValueError, SwitchError)):
        linux.counters([hostile])
    with pytest.raises(ConfigError):
        ssh_words(hostile, None)


class LinuxSession(RunningShell):
    """The command line of a switch whose command line is a Linux shell. It answers with the port's own lines."""

    def ask(self, command: str) -> str:
        self.run(command)
        return ""

    def change(self, commands: Iterable[str]) -> None:
        for command in commands:
            self.run(command)

    def close(self) -> None: ...


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("family", sorted(built_in()))
def test_no_command_line_of_a_switch_gets_a_hostile_port(family: str, hostile: str, tmp_path: Path) -> None:
    where = Where("lab.yaml")
    session = LinuxSession(tmp_path)
    switch = CliSwitch(Switch("sw", "cli", (hostile,), {}, where), cli_family.load(family, where, None), session)
    state = PortState(admin_up=True, carrier=None, speed_mbps=None, duplex=None, vlan=1, poe=None)
    for act in (switch.states, switch.counters, switch.neighbours, lambda ports: switch.configure({hostile: state})):
        with pytest.raises((ConfigError, SwitchError)):
            act([hostile])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("hostile", CANARIES)
def test_the_ssh_proxy_of_an_snmp_switch_quotes_its_agent(
    hostile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``ssh`` runs its last word in a shell, as the other end would."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "far").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(
        '#!/bin/sh\nfor last; do :; done\ncd "${0%/bin/ssh}/far" || exit\nPATH=/nowhere exec /bin/sh -c "$last"\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path / "far")
    proxy = SnmpProxy("sw", "ssh://admin@proxy", hostile, (hostile, 161), Where("lab.yaml"))
    try:
        with pytest.raises((SshError, SwitchError), match="python3"):
            proxy.open()
    finally:
        proxy.close()
    assert list((tmp_path / "far").iterdir()) == []


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_a_board_with_a_hostile_device_name_has_no_such_nic(hostile: str) -> None:
    board = parse_board(f"model=Pi\ndevice={hostile}\nmac=dc:a6:32:01:02:03\ndevice=eth0\nmac=dc:a6:32:01:02:04\n")
    assert set(board.nics) <= {"eth0", "x"}


def test_hostile_texts_are_long_and_busy_for_no_reader() -> None:
    """Each took from 20 seconds to minutes: numbers of base 60, and a range of ports with many hyphens."""
    code = (
        "import sys; from pytest_pinet.config.labfile import resolve; from pytest_pinet.errors import ConfigError\n"
        "for text in ('1:' * 400_000 + '1', '1-' * 400_000, '1-' * 2000, '9' * 900_000):\n"
        "    for lab in (text, '{pinet: {switches: {a: {backend: fixed, ports: %s}}, nodes: {}}}' % text):\n"
        "        try: resolve(lab, 'x')\n"
        "        except ConfigError as error: assert str(error).startswith('x:1: '), error\n"
        "        else: sys.exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 0
