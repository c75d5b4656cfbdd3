"""The space that modules and driver firmware need, and the configuration that mkinitramfs of Debian 12 needs."""

from __future__ import annotations

import lzma
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.deploy import root_files as module
from pytest_pinet.lab.deploy.board import Refused
from pytest_pinet.lab.deploy.known_good import firmware_folder
from pytest_pinet.lab.deploy.live import Live
from pytest_pinet.lab.deploy.root_files import RootFiles
from pytest_pinet.model.build import Build
from tests.support import build_files as made
from tests.support.local_shell import LocalShell


class Shell:
    """Answers to df with these free kilobytes by mount. Every other command works and prints nothing."""

    name = "pi"
    fence = ""

    def __init__(self, free: dict[str, int]) -> None:
        self.free = free

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if "df -kP" not in command:
            return Completed(0, "", "")
        mount = next(one for one in self.free if f" {one}" in command)
        return Completed(0, f"/dev/x 9000 0 {self.free[mount]} 1% {mount}\n", "")

    def feed(self, command: str, source: IO[bytes], timeout_s: float) -> Completed:
        return Completed(0, "", "")


def files_on(free: dict[str, int]) -> RootFiles:
    board: Any = SimpleNamespace(name="pi", shell=Shell(free), has_power=True)
    return RootFiles(board)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def build_of(folder: Path, text: str) -> Build:
    made.write(folder, {"Image": made.image(), **made.tree(r8169=made.module("r8169") + bytes(50_000))})
    made.write(folder, {"fw.bin": folder.name.encode() * 1000, "build.yaml": f"name: {folder.name}\n{text}".encode()})
    return load_build(str(folder / "build.yaml"))


MODULES = "kernel: Image\nmodules: .\n"
FIRMWARE = "firmware: {rtl_nic/new.fw: fw.bin}\n"


def test_each_part_needs_space_in_its_own_file_system(tmp_path: Path) -> None:
    both = build_of(tmp_path / "both", MODULES + FIRMWARE)
    files_on({"/var": 5, "/": 60}).check(both, None, True)
    with pytest.raises(Refused, match=r"^the driver firmware of build both takes 0 MB, but pi has only 0 MB left"):
        files_on({"/var": 3, "/": 60}).check(both, None, True)
    with pytest.raises(Refused, match=r"^the modules of build both take"):
        files_on({"/var": 60, "/": 45}).check(both, None, True)
    files_on({"/": 60}).check(both, None, True)
    with pytest.raises(Refused, match=r"^the modules and driver firmware of build both take"):
        files_on({"/": 51}).check(both, None, True)


def test_the_firmware_of_a_deployed_build_is_not_counted_again(tmp_path: Path) -> None:
    files = files_on({"/": 5})
    first, second = (build_of(tmp_path / name, FIRMWARE) for name in ("aaaa", "bbbb"))
    files.check(first, None, True)
    with pytest.raises(Refused, match="beside 0 MB of another build"):
        files.check(second, None, True)
    files.deploy(first)
    files.check(second, None, True)


def test_the_temporary_files_of_mkinitramfs_need_space(tmp_path: Path) -> None:
    build = build_of(tmp_path / "new", MODULES)
    sentence = r"^the temporary initramfs of build new takes 12 MB, but /var/tmp of pi has only 12 MB left: delete"
    with pytest.raises(Refused, match=sentence):
        files_on({"/var/tmp": 11700, "/": 60}).check(build, 1_000_000, True)
    files_on({"/var/tmp": 11719, "/": 60}).check(build, 1_000_000, True)
    # On one file system, it is beside the modules.
    with pytest.raises(Refused, match=r"^the modules and temporary initramfs of build new take 12 MB, but pi has only"):
        files_on({"/": 11752}).check(build, 1_000_000, True)
    files = files_on({"/": 11782})
    files.check(build, 1_000_000, True)
    # Two builds are made one after the other.
    files.check(build_of(tmp_path / "both", FIRMWARE), 980_000, True)


def test_an_empty_configuration_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    monkeypatch.setattr(module, "run_as_root", lambda shell, command, what, timeout_s: commands.append(command))
    build = build_of(tmp_path / "new", MODULES)
    files_on({"/": 60}).make_initramfs(build, str(tmp_path / "initramfs"))
    tool = tmp_path / "mkinitramfs"
    tool.write_text(f"#!/bin/sh\ngrep -h CONFIG {tmp_path}/config-* >{tmp_path}/seen\n")
    tool.chmod(0o755)
    script = commands[0].replace("/boot/config-", f"{tmp_path}/config-")
    script = script.replace(str(Path(firmware_folder(build)).parent), str(tmp_path / "conf"))
    script = script.replace("/etc/initramfs-tools", str(tmp_path / "etc"))
    config = tmp_path / f"config-{build.release}"
    for text, seen, kept in (("", "CONFIG_RD_GZIP=y\n", False), ("CONFIG_OWN=y\n", "CONFIG_OWN=y\n", True)):
        config.write_text(text)
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", script], env=env, check=True)
        assert ((tmp_path / "seen").read_text(), config.exists()) == (seen, kept)


# The file of nf_conntrack has the name of "hashsize", but no type and no description.
FILE = made.module("pinet_test", parameters=()) + b"\xff\xfe\0hashsize\0"
KMOD = """#!/bin/sh
case "$2" in filename) echo {file} ;; parmtype) echo quiet:bool ;; parm) echo "quirks:a list (see: docs)" ;; esac
"""


def check(folder: Path, parameter: str, modinfo: str | None) -> None:
    if modinfo is not None:
        (folder / "modinfo").write_text(modinfo)
        (folder / "modinfo").chmod(0o755)
    board: Any = SimpleNamespace(name="pi", shell=LocalShell("pi", {"PATH": f"{folder}:{os.environ['PATH']}"}))
    Live(board).check_options(Build("new", options=(("pinet_test", parameter, "1"),)))


@pytest.mark.parametrize("ending", ["ko", "ko.xz"])
def test_a_parameter_that_modinfo_or_the_file_has_is_accepted(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"pinet_test.{ending}"
    file.write_bytes(lzma.compress(FILE) if ending == "ko.xz" else FILE)
    modinfo = KMOD.format(file=file)
    for parameter in ("quiet", "quirks", "hashsize", "dyndbg"):
        check(tmp_path, parameter, modinfo)
    for parameter in ("hashsiz", "ashsize", "other"):
        with pytest.raises(ConfigError, match=rf"pinet_test has no parameter '{parameter}'; accepted: quiet, quirks$"):
            check(tmp_path, parameter, modinfo)


def test_of_code_that_is_built_in_only_a_misspelled_parameter_is_refused(tmp_path: Path) -> None:
    check(tmp_path, "devkmsg", KMOD.format(file="'(builtin)'"))
    with pytest.raises(ConfigError, match=r"has no parameter 'quiett'; accepted: quiet, quirks$"):
        check(tmp_path, "quiett", KMOD.format(file="'(builtin)'"))


# busybox 1.36 prints nothing and ends with 0 for a module that it does not find.
@pytest.mark.parametrize("modinfo", ["#!/bin/sh\n", "#!/bin/sh\nexit 127\n"])
def test_without_an_answer_of_modinfo_each_parameter_is_accepted(tmp_path: Path, modinfo: str) -> None:
    check(tmp_path, "other", modinfo)
