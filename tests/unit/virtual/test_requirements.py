"""The requirements of the virtual lab on the machine and on the lab file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.emulated import image
from pytest_pinet.errors import LabError
from pytest_pinet.virtual import requirements
from pytest_pinet.virtual.launcher import exporter_file, places_file
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
    assert "board: pi4b" in places_file(found)
    ports = {"pdu": 1, "nodes": {"one": {"console": 2, "ssh": 3}}, "switches": {"sw": 4}}
    text = exporter_file(found, ports)
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


APT = """\
#!/bin/sh
echo "apt-get $*" >>"$LOG"
case "$*" in
*install*--simulate*) echo "Inst libuv1 (1.44 Debian)"; echo "Inst iperf3 (3.12 Debian)"; echo "Conf iperf3 (3.12)" ;;
*purge*--simulate*) echo "Purg iperf3 [3.12]"; echo "Purg $OTHER [1.0]" ;;
esac
"""
DPKG = """\
#!/bin/sh
echo "ii  bash"; echo "ii  iperf3"; echo "rc  gone"; echo "ii  libuv1"
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put stand-ins for apt-get and dpkg-query first in PATH. Return the file with all calls of apt-get."""
    for name, text in (("apt-get", APT), ("dpkg-query", DPKG)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "log"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a copy of the script for a machine that has none of the commands."""
    for name in ("sh", "dirname", "readlink"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    for folder, file in (("virtual", requirements.COMMANDS), ("emulated", image.COMMANDS)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file.name).symlink_to(file)
    script = tmp_path / "virtual" / "system-packages"
    # These folders are not empty here.
    text = requirements.SCRIPT.read_text().replace('PATH="$PATH:/usr/sbin:/sbin" ', "")
    text = text.replace("/usr/include/stdio.h", str(tmp_path / "sh"))
    script.write_text(text.replace("/usr/sbin/policy-rc.d", str(tmp_path / "policy")))
    return script


@pytest.mark.parametrize("want", ["", "emulated"])
def test_the_script_installs_what_the_labs_check(want: str, tmp_path: Path, script: Path) -> None:
    environment = {"PATH": str(tmp_path), "FOR": "list", "WANT": want}
    done = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, timeout=60, check=True)
    files = [requirements.COMMANDS, image.COMMANDS][: 2 if want else 1]
    assert set(done.stdout.split()) == {
        package for file in files for package in requirements.packages_of(file).values()
    }


def test_programs_of_single_tests_are_no_error_if_they_cannot_be_installed(tmp_path: Path, script: Path) -> None:
    there = {*requirements.packages_of(requirements.COMMANDS), *requirements.packages_of(image.COMMANDS)}
    there |= set(re.findall(r"\bwant (\S+) \S+", script.read_text())) - {"zsh", "fish", "mandoc"}
    scripts = dict.fromkeys(there, "exit 0") | {"apt-get": "echo $* >>$LOG; exit 100", "id": "echo 0"}
    others = dict.fromkeys(("python", "perl", "rm", "tee", "chmod"), "exit 0")
    for name, text in {**scripts, **others}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "policy").write_text("")
    log = tmp_path / "log"
    environment = {"PATH": str(tmp_path), "FOR": "slow", "PYTHON": "python", "LOG": str(log)}
    done = subprocess.run(
        ["sh", str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "could not install fish zsh mandoc: what needs them says so\n")
    assert log.read_text() == "update -qq\n"


def test_the_lab_needs_all_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(requirements, "search_path", lambda: str(tmp_path))
    with pytest.raises(LabError) as found:
        requirements.check_commands()
    assert found.value.message.startswith("the virtual lab needs agetty, ethtool, ip, iperf3, ")


def test_a_package_that_was_there_is_not_ours_to_remove(apt: Path) -> None:
    assert requirements.plan_installation(["iperf3", "lldpd"]) == []
    assert "apt-get install --simulate --no-install-recommends iperf3 lldpd" in apt.read_text()


def test_packages_that_others_need_by_now_stay(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", "their-tool")
    with pytest.raises(LabError) as refused:
        requirements.remove_packages(["iperf3"])
    assert refused.value.message == (
        "the system packages of the demo stay, because other packages need them now: their-tool"
    )
    assert "apt-get purge --yes -qq iperf3\n" not in apt.read_text()


def test_only_installed_packages_are_removed(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", "iperf3")
    assert requirements.remove_packages(["iperf3", "never-there", "gone"]) == ["iperf3"]
    assert apt.read_text().splitlines()[-1] == "apt-get purge --yes -qq iperf3"
    assert requirements.remove_packages(["never-there"]) == []
