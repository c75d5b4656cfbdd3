from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.emulated import prepare
from pytest_pinet.errors import LabError
from pytest_pinet.virtual import requirements, system_packages

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
    for folder, file in (("virtual", requirements.COMMANDS), ("emulated", prepare.COMMANDS)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file.name).symlink_to(file)
    script = tmp_path / "virtual" / "system-packages"
    # These folders are not empty here.
    text = system_packages.SCRIPT.read_text().replace('PATH="$PATH:/usr/sbin:/sbin" ', "")
    text = text.replace("/usr/include/stdio.h", str(tmp_path / "sh"))
    script.write_text(text.replace("/usr/sbin/policy-rc.d", str(tmp_path / "policy")))
    return script


@pytest.mark.parametrize("want", ["", "emulated"])
def test_the_script_installs_what_the_labs_check(want: str, tmp_path: Path, script: Path) -> None:
    environment = {"PATH": str(tmp_path), "FOR": "list", "WANT": want}
    done = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, timeout=60, check=True)
    files = [requirements.COMMANDS, prepare.COMMANDS][: 2 if want else 1]
    assert set(done.stdout.split()) == {
        package for file in files for package in requirements.packages_of(file).values()
    }


def test_programs_of_single_tests_are_no_error_if_they_cannot_be_installed(tmp_path: Path, script: Path) -> None:
    there = {*requirements.packages_of(requirements.COMMANDS), *requirements.packages_of(prepare.COMMANDS)}
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
    monkeypatch.setattr(requirements, "SEARCH", str(tmp_path))
    with pytest.raises(LabError) as found:
        requirements.check_commands()
    assert found.value.message.startswith("the virtual lab needs agetty, ethtool, ip, iperf3, ")


def test_a_package_that_was_there_is_not_ours_to_remove(apt: Path) -> None:
    assert system_packages.plan_installation(["iperf3", "lldpd"]) == []
    assert "apt-get install --simulate --no-install-recommends iperf3 lldpd" in apt.read_text()


def test_packages_that_others_need_by_now_stay(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", "their-tool")
    with pytest.raises(LabError) as refused:
        system_packages.remove_packages(["iperf3"])
    assert refused.value.message == (
        "the system packages of the demo stay, because other packages need them now: their-tool"
    )
    assert "apt-get purge --yes -qq iperf3\n" not in apt.read_text()


def test_only_installed_packages_are_removed(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", "iperf3")
    assert system_packages.remove_packages(["iperf3", "never-there", "gone"]) == ["iperf3"]
    assert apt.read_text().splitlines()[-1] == "apt-get purge --yes -qq iperf3"
    assert system_packages.remove_packages(["never-there"]) == []
