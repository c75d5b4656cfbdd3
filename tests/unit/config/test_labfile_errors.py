"""Mistakes in lab files, and hostile values: one sentence with file and line."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pytest_pinet import catalogue
from pytest_pinet.catalogue.load import built_in
from pytest_pinet.config.labfile import load, resolve
from pytest_pinet.config.schema import LabOfFile, json_schema
from pytest_pinet.config.switches import _SETTINGS
from pytest_pinet.config.yaml_lines import parse
from pytest_pinet.errors import ConfigError, SshError, SwitchError, Where, sentence
from pytest_pinet.evidence.nics import parse_board
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.ssh import ssh_words
from pytest_pinet.lab.switch import cli_family
from pytest_pinet.lab.switch.cli import CliSwitch
from pytest_pinet.lab.switch.linux import Bridges, LinuxSwitch
from pytest_pinet.lab.switch.snmp_proxy import SnmpProxy
from pytest_pinet.lab.switch.switchport import PortState
from pytest_pinet.model import forms
from pytest_pinet.model.figures import FIGURES
from pytest_pinet.model.lab import Lab, Names, Switch
from tests.support.hostile import HOSTILE

GOOD = """\
targets:
  a: {}
  b: {}
pinet:
  switches:
    sw:
      backend: fixed
      ports: [p1, p2, p3, p4]
  nodes:
    a:
      board: pi4b
      interfaces:
        onboard: {port: sw/p1}
        usb:
          nic: ax88179
          port: sw/p2
    b:
      board: pi3b
      interfaces:
        onboard: {port: sw/p3}
  limits:
    - {min: 90%}
    - board: pi4b
      nic: ax88179
      min: 690 Mbit/s
"""
ORIGIN = "; `pinet init` writes one for your boards, and `pinet demo` needs none"
EXPECTED = "expected a lab file (a labgrid environment with a 'pinet' key)"


MISTAKES = yaml.safe_load(Path(__file__).with_name("labfile_mistakes.yaml").read_text(encoding="utf-8"))


def refused(text: str | bytes, directory: Path) -> str:
    """Return the error message for a lab file of this content, loaded by its relative path."""
    (directory / "lab.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    before = Path.cwd()
    os.chdir(directory)
    try:
        with pytest.raises(ConfigError) as caught:
            load("lab.yaml")
    finally:
        os.chdir(before)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # one sentence, no chain of tracebacks
    return str(caught.value)


def test_the_good_file_is_good(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(GOOD, encoding="utf-8")
    assert list(load(tmp_path / "lab.yaml").nodes) == ["a", "b"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["mistake"])
def test_a_mistake_is_one_sentence(mistake: dict[str, str], tmp_path: Path) -> None:
    old = mistake["old"] or GOOD[GOOD.index("pinet:") :]
    assert GOOD.count(old) == 1
    assert refused(GOOD.replace(old, mistake["new"]), tmp_path) == f"lab.yaml:{mistake['says']}"


def test_the_first_mistake_of_the_file_is_reported(tmp_path: Path) -> None:
    text = GOOD.replace("min: 90%", "min: 90").replace("board: pi3b", "bord: pi3b")
    assert refused(text, tmp_path).startswith("lab.yaml:17: pinet.nodes.b lacks the key 'board'")


def test_no_nodes(tmp_path: Path) -> None:
    start, end = GOOD.index("  nodes:"), GOOD.index("  limits:")
    assert (
        refused(GOOD[:start] + "  nodes: {}\n", tmp_path) == "lab.yaml:9: this lab has no nodes; expected at least one"
    )
    assert refused(GOOD[:start] + GOOD[end:], tmp_path) == "lab.yaml:4: pinet lacks the key 'nodes'"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", f"lab.yaml: the file is empty; {EXPECTED}"),
        ("# nothing yet\n", f"lab.yaml: the file is empty; {EXPECTED}"),
        ("just words\n", f"lab.yaml:1: {EXPECTED}, got 'just words'"),
        ("[1, 2]\n", f"lab.yaml:1: {EXPECTED}, got a list"),
        ("targets: {}\n", f"lab.yaml: the key 'pinet' is missing; {EXPECTED}"),
        (b"targets: {}\n\xff\xfe\n", f"lab.yaml:2: byte 0xff is not UTF-8 text; {EXPECTED}"),
        ("targets: {}\nx: \x00\n", "lab.yaml:2: this is not YAML: control characters are not allowed: \\x00"),
        ("a: [1, 2\n", "lab.yaml:2: this is not YAML: while parsing a flow sequence from line 1 on, did not find"),
        ("x" * 10_000_000, "lab.yaml: 10.0 MB is too large for a lab file (a labgrid environment with a 'pinet' key)"),
        ("x-a: " + "[" * 500_000, "lab.yaml:1: this is nested more than 40 levels deep"),
    ],
    ids=["empty", "comment", "text", "list", "no-pinet", "bytes", "nul", "not-yaml", "10MB", "deep"],
)
def test_other_texts_are_refused_as_lab_file(content: str | bytes, message: str, tmp_path: Path) -> None:
    assert refused(content, tmp_path).startswith(message)


@pytest.mark.parametrize(("character", "shown"), [("\x01", "\\x01"), ("\x7f", "\\x7f"), ("\x9b", "\\x9b")])
def test_a_control_character_has_its_line(character: str, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f'a: "\u00e9"\nb: 2\nc: "{character}"\n', "y.yaml")
    message = str(caught.value)
    assert message.startswith("y.yaml:3: this is not YAML: ")
    assert message.endswith(f": {shown}")


@pytest.mark.parametrize("text", ["0x10", "010", "1_000", "10:20:30:40:50:10", "+5", "0b1"])
def test_a_number_that_is_not_written_as_its_digits_stays_as_it_is(text: str) -> None:
    assert parse(f"a: {text}\n", "y.yaml").data == {"a": text}
    assert parse("a: 10\nb: -5\nc: true\n", "y.yaml").data == {"a": 10, "b": -5, "c": True}


def test_aliases_that_expand_without_end(tmp_path: Path) -> None:
    levels = ["x-0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    levels += [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    message = refused("\n".join(levels) + "\n" + GOOD, tmp_path)
    assert message == "lab.yaml:5: an entry has more than 100000 values after aliases are expanded"


def test_a_missing_file_names_its_nearest_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labs").mkdir()
    (tmp_path / "labs" / "virtual.yaml").touch()
    with pytest.raises(ConfigError) as caught:
        load("labs/virtul.yaml")
    assert str(caught.value) == "labs/virtul.yaml: this file does not exist, did you mean 'labs/virtual.yaml'?"
    with pytest.raises(ConfigError) as caught:
        load("labs/other")
    assert str(caught.value) == f"labs/other: this file does not exist; {EXPECTED}{ORIGIN}"
    with pytest.raises(ConfigError) as caught:
        load("lubs/virtual.yaml")
    assert (
        str(caught.value) == f"lubs/virtual.yaml: neither this file nor its directory 'lubs' exists; {EXPECTED}{ORIGIN}"
    )


def test_paths_that_are_not_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for path, message in [
        ("directory", f"directory: this is a directory; {EXPECTED}"),
        ("fifo", f"fifo: this is not a regular file; {EXPECTED}"),
        ("/dev/zero", f"/dev/zero: this is not a regular file; {EXPECTED}"),
        ("a\0b", f"a\\x00b: this cannot be read (not a valid path); {EXPECTED}"),
        ("x" * 5000, sentence(f"{'x' * 5000}: this cannot be read (File name too long); {EXPECTED}")),
    ]:
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert str(caught.value) == message


VIRTUAL = (Path(__file__).parents[3] / "lab" / "virtual.yaml").read_text(encoding="utf-8")
FRAGMENTS = [
    *("{", "}", "[", "]", ":", ": ", "\n", "  ", "- ", "'", '"', "&a ", "*a", "*drivers", "!template ", "!!int ", "? "),
    *("|", ">", "%", "#", "<<: ", "~", "null", ".nan", "-1", "0", "1e400", "9" * 40, "0b_", "yes", "2001-01-01", "@"),
    *("p1-p16", "sw1/p1", "pi4b", "onboard", "rtl8125", "\t", "\x00", "\ufeff", "\u2028", "ü", "---\n", "...\n", "0x"),
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Return the virtual lab's file after some cuts, copies and insertions."""
    text = VIRTUAL
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        piece = draw(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5), st.just(text[start:end] * 2)))
        text = text[:start] + piece + text[end:]
    return text


# `make fuzz` has more.
@settings(max_examples=150, deadline=None)
@given(mutated())
@example(VIRTUAL.replace("\n", "\r\n"))
@example("\ufeff" + VIRTUAL)
def test_any_mangled_file_is_a_lab_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "mangled.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    outcome: Lab | ConfigError
    try:
        outcome = load(path)
    except ConfigError as error:
        outcome = error
    if isinstance(outcome, ConfigError):
        assert outcome.message.isprintable()
    else:
        assert outcome.nodes


def test_a_directory_that_may_not_be_listed_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # Root may list every directory.
    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(ConfigError, match="this file does not exist; expected"):
        load(str(tmp_path / "lab.yaml"))


CANARIES = [text for text in HOSTILE if "canary" in text and "\0" not in text]
# Texts for people, and paths that only Python opens. They are in no command.
FREE = {
    ("boards", "title"), ("boards", "model"), ("boards", "sources"), ("nics", "title"), ("nics", "chip"),
    ("nics", "sources"), ("baselines",), ("calibration",),
}  # fmt: skip
LAB: dict[str, Any] = {
    "name": "lab", "figures": "measured", "launcher": "virtual", "scale": "auto", "profile": "standard",
    "boards": {"b": {
        "title": "B", "clock_mhz": 1, "cores": 1, "buses": ["usb2"], "onboard": "n", "model": "M", "sources": ["s"],
    }},
    "nics": {"n": {
        "title": "N", "chip": "C", "driver": "d", "bus": "usb2", "speeds_mbps": [100], "mtu_max": 1500,
        "products": ["p"], "sources": ["s"],
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
        "fairness": "9%", "tolerance": "9%", "cost_tolerance": "9%", "retransmits": "9%", "loss": "9%",
        "latency": "9 ms", "cpu": "9%", "marginal": "9%",
        "transactions": "9/s", "connections": "9/s", "packets": "9/s", "p50": "9 ms", "p90": "9 ms",
        "p99": "9 ms", "late": "9%", "idle_loss": "9%", "first_answer": "9 ms", "first_second": "9%",
    }],
    "traffic_tool": "iperf3", "http_tool": "wrk", "baselines": "b", "calibration": "c", "domains": {"d": ["a"]},
    "commits": "https://git.kernel.org/linus/{commit}",
}  # fmt: skip
# The parser of limits reads these; the schema leaves them as they are. Both refuse all that is no number.
LIMITS = {
    "min",
    "sum",
    "share",
    "fairness",
    "tolerance",
    "cost_tolerance",
    "retransmits",
    "loss",
    "latency",
    "cpu",
    *FIGURES,
}


KNOWN = Names(
    catalogue.load().boards, catalogue.load().nics, {"sw": Switch("sw", "fixed", ("p1", "p2"), {}, Where("lab.yaml"))}
)


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
    numbers = {"clock_mhz", "cores", "speeds_mbps", "mtu_max", "runner", "max_drops", "wireless"}
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
    for parse_address in (forms.ssh_address, forms.snmp_address):
        with pytest.raises(ValueError, match="expected an address"):
            parse_address(hostile)
        for text in (f"ssh://{hostile}@host", f"snmp://{hostile}", f"ssh://a@{hostile}:22", f"host:{hostile}"):
            with pytest.raises(ValueError, match="expected an address"):
                parse_address(text)


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
