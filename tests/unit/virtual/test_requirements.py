"""The requirements of the virtual lab on the machine and on the lab file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LabError
from pytest_pinet.virtual import requirements
from pytest_pinet.virtual.labgrid_files import exporter, places
from pytest_pinet.virtual.runtime import Runtime
from pytest_pinet.virtual.spec import LabSpec, mac_address, spec_of

LAB_FILE = """\
pinet:
  name: unit
  launcher: virtual
  switches:
    sw: {backend: linux, address: "ssh://root@127.0.0.1:1", ports: [PORT, p2]}
  nodes:
    one: {board: pi4b, interfaces: {onboard: {port: sw/PORT}}}
"""


def spec(directory: Path, port: str = "p1") -> LabSpec:
    file = directory / "lab.yaml"
    file.write_text(LAB_FILE.replace("PORT", port))
    return spec_of(load(file))


def test_without_root_and_sudo_the_start_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"needs root .* this user is not root and `sudo -n true` fails"):
        requirements.as_root()


def test_sudo_is_used_to_start_the_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sudo").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "sudo").chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert requirements.as_root() == ["sudo", "-n", "--"]


def test_missing_commands_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "commands").write_text("no-such-iperf iperf3\nno-such-sshd openssh-server\n")
    monkeypatch.setattr(requirements, "COMMANDS", tmp_path / "commands")
    with pytest.raises(LabError) as raised:
        requirements.check_commands()
    assert raised.value.message == "the virtual lab needs no-such-iperf, no-such-sshd, which this machine lacks"
    assert raised.value.act == "apt install --no-install-recommends iperf3 openssh-server"


@pytest.mark.parametrize("port", ["a-port-name-that-is-too-long", "p/1", "br0", "lo", "pört"])
def test_a_port_whose_name_is_no_device_name_is_refused(tmp_path: Path, port: str) -> None:
    (tmp_path / "lab.yaml").write_text(LAB_FILE.replace("PORT", "p1"))
    lab = load(tmp_path / "lab.yaml")
    switch = replace(lab.switches["sw"], ports=(port,))
    with pytest.raises(LabError, match="cannot be the name of a network device"):
        spec_of(replace(lab, switches={"sw": switch}))


def test_the_digest_of_a_lab_is_stable_and_depends_on_its_cables_and_not_on_lines_and_waiting_times(
    tmp_path: Path,
) -> None:
    first = spec(tmp_path)
    assert spec(tmp_path).digest == first.digest
    assert spec(tmp_path, "p9").digest != first.digest
    file = tmp_path / "lab.yaml"
    text = LAB_FILE.replace("PORT", "p1")
    file.write_text("# A comment.\n" + text.replace("board: pi4b,", "board: pi4b, boot_timeout: 9 s,"))
    assert spec_of(load(file)).digest == first.digest


def test_addresses_are_stable_and_locally_administered() -> None:
    assert mac_address("one", "eth0") == mac_address("one", "eth0") != mac_address("one", "eth1")
    assert mac_address("one", "eth0").startswith("02:")


def test_labgrid_gets_a_place_per_node_and_a_port_per_interface(tmp_path: Path) -> None:
    found = spec(tmp_path)
    assert "board: pi4b" in places(found)
    ports = {"pdu": 1, "nodes": {"one": {"console": 2, "ssh": 3}}, "switches": {"sw": 4}}
    text = exporter(found, ports)
    assert "host: http://127.0.0.1:1/relay/{index}/value" in text
    assert "cls: EthernetPort" in text


def test_each_lab_file_has_its_own_private_runtime_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    runtime = Runtime.of("lab.yaml")
    assert runtime.path.parent == tmp_path / "pinet"
    assert Runtime.of("other.yaml").path != runtime.path == Runtime.of("./lab.yaml").path
    with runtime.locked():
        runtime.create()
        assert runtime.path.stat().st_mode & 0o777 == 0o700
        runtime.write_json("x.json", {"a": 1})
        assert runtime.read_json("x.json") == {"a": 1}
        runtime.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_others_can_read_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "pinet").mkdir()
    (tmp_path / "pinet").chmod(0o755)
    with pytest.raises(LabError, match="not a private directory"):
        Runtime.of("lab.yaml").create()
