"""QEMU: found, unpacked, with its plugin, and room for guests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_pinet.errors import CapabilityError, LabError
from pytest_pinet.exact import qemu
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.qemu import (
    PROGRAM,
    Qemu,
    Room,
    build_plugin,
    find_qemu,
    free_memory,
    plugin_for,
    qemu_at,
    unpack_newer_qemu,
    unpacked_folder,
    usable_processors,
)
from tests.support.apt_programs import LISTS, tool

BOARDS = exact_boards()
E1000E, IGB = BOARDS["e1000e"], BOARDS["igb"]
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("PINET_QEMU", raising=False)


def program(path: Path, version: str) -> Path:
    """Write a program that prints a version as QEMU does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'QEMU emulator version {version}'\n")
    path.chmod(0o755)
    return path


def test_the_machines_own_qemu_is_used(tmp_path: Path) -> None:
    own = program(tmp_path / "bin" / PROGRAM, "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)")
    found = find_qemu(E1000E)
    assert (found.command, found.version_text, found.plugin_api) == ((str(own),), "7.2.22", 1)


def test_a_board_that_needs_a_newer_qemu_uses_the_unpacked_one(tmp_path: Path) -> None:
    program(tmp_path / "bin" / PROGRAM, "7.2.22")
    newer = program(unpacked_folder() / "usr" / "bin" / PROGRAM, "10.0.2")
    (unpacked_folder() / "usr" / "lib" / "x86_64-linux-gnu" / "qemu").mkdir(parents=True)
    found = find_qemu(IGB)
    assert found.command == (str(newer), "-L", str(unpacked_folder() / "usr" / "share" / "qemu"))
    assert found.environment == {"QEMU_MODULE_DIR": str(unpacked_folder() / "usr/lib/x86_64-linux-gnu/qemu")}
    assert (found.version_text, found.plugin_api) == ("10.0.2", 4)
    assert find_qemu(E1000E).version_text == "7.2.22"


def test_an_old_qemu_is_one_sentence(tmp_path: Path) -> None:
    own = program(tmp_path / "bin" / PROGRAM, "7.2.22")
    message = f"^the exact board igb needs QEMU 8.0, but {own} is QEMU 7.2.22: run `pinet emulated qemu`, which "
    with pytest.raises(CapabilityError, match=message):
        find_qemu(IGB)


def test_a_missing_qemu_is_one_sentence() -> None:
    with pytest.raises(LabError, match=f"^exact boards need {PROGRAM}, which this machine lacks\n  -> apt install "):
        find_qemu(E1000E)


def test_the_variable_names_a_program_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "other" / "usr" / "bin" / PROGRAM, "10.0.2")
    for named in (tmp_path / "other", tmp_path / "other" / "usr" / "bin" / PROGRAM):
        monkeypatch.setenv("PINET_QEMU", str(named))
        assert find_qemu(IGB).version_text == "10.0.2"
    monkeypatch.setenv("PINET_QEMU", str(tmp_path / "none"))
    with pytest.raises(LabError, match=rf"^PINET_QEMU names {tmp_path}/none, which is neither {PROGRAM} nor a folder"):
        find_qemu(IGB)


@pytest.mark.parametrize(
    ("version", "api"), [("7.2", 1), ("8.2.1", 1), ("9.0", 2), ("9.1.3", 3), ("9.2", 4), ("10.0", 4)]
)
def test_each_qemu_has_a_plugin_interface(version: str, api: int) -> None:
    assert Qemu(("qemu",), tuple(map(int, version.split("."))), "").plugin_api == api


def test_without_a_compiler_the_reason_says_how_to_get_one() -> None:
    found = build_plugin(Qemu(("qemu",), (7, 2), ""))
    assert found.path is None
    assert found.missing == (
        "instructions are not counted by function: this machine has no C compiler: `apt install gcc libc6-dev`"
    )


def test_a_compiler_that_fails_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cc").write_text("#!/bin/sh\necho 'stdint.h: No such file or directory' >&2\nexit 1\n")
    (tmp_path / "bin" / "cc").chmod(0o755)
    found = build_plugin(Qemu(("qemu",), (7, 2), ""))
    assert found.path is None
    assert found.missing.endswith("failed with exit code 1: stdint.h: No such file or directory")


@needs_cc
@pytest.mark.parametrize("version", [(7, 2), (10, 0)])
def test_the_plugin_is_built_once(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    first = build_plugin(Qemu(("qemu",), version, ""))
    assert first.path is not None
    assert b"qemu_plugin_install" in first.path.read_bytes()
    monkeypatch.setenv("PATH", "/nowhere")
    assert build_plugin(Qemu(("qemu",), version, "")) == first


def test_two_processors_are_counted_by_old_versions_only() -> None:
    newer = plugin_for(Qemu(("qemu",), (10, 0, 2), ""), 2)
    assert newer.path is None
    assert newer.missing.startswith("with 2 processors, instructions are counted by function with QEMU 7.2 only:")
    # These two only lack a compiler here.
    for one, processors in ((Qemu(("qemu",), (10, 0, 2), ""), 1), (Qemu(("qemu",), (7, 2, 22), ""), 2)):
        assert plugin_for(one, processors).missing.endswith("has no C compiler: `apt install gcc libc6-dev`")


APT = f"""\
case "$*" in
*indextargets*) cat <<'END'
{LISTS}END
;;
download*)
    for word in "$@"; do case $word in */*) package=$word ;; esac; done
    file=${{package%%/*}}_10.0.2.deb
    case "$*" in *--print-uris*) echo "'http://mirror/$file' $file 9 SHA256:0" ;; *) echo "$package" >"$file" ;; esac ;;
esac"""
DPKG = f"""\
mkdir -p "$3/usr/bin"
cat "$2" >>"$3/packages"
case $2 in *-arm_*) ;; *) exit 0 ;; esac
printf '#!/bin/sh\\necho QEMU emulator version 10.0.2\\n' >"$3/usr/bin/{PROGRAM}"
chmod 755 "$3/usr/bin/{PROGRAM}\""""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the stand-ins, first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, script in (("apt-get", APT), ("dpkg", "echo amd64"), ("dpkg-deb", DPKG)):
        tool(folder, name, script)
    return folder


def left() -> list[str]:
    """Return what the cache has beside the QEMU that counts."""
    folder = unpacked_folder().parent
    return [path.name for path in folder.rglob("*") if path.suffix in (".draft", ".deb")]


@pytest.mark.usefixtures("programs")
def test_the_packages_of_the_backports_of_this_release_are_unpacked() -> None:
    said: list[str] = []
    program = unpack_newer_qemu(said.append)
    assert program == unpacked_folder() / "usr/bin" / PROGRAM
    assert qemu_at(unpacked_folder(), "the cache").version == (10, 0, 2)
    assert (unpacked_folder() / "packages").read_text().split() == [
        f"qemu-system-{part}/bookworm-backports" for part in ("arm", "common", "data")
    ]
    assert said[-1] == "QEMU 10.0.2"
    assert left() == []


def test_a_failed_unpacking_keeps_the_earlier_qemu(programs: Path) -> None:
    unpack_newer_qemu(print)
    tool(programs, "dpkg-deb", 'mkdir -p "$3"; echo "dpkg-deb: error: No space left" >&2; exit 2')
    with pytest.raises(LabError, match=r"^`dpkg-deb -x .* failed with exit code 2: dpkg-deb: error: No space left"):
        unpack_newer_qemu(print)
    assert qemu_at(unpacked_folder(), "the cache").version == (10, 0, 2)
    assert not [name for name in left() if name.endswith(".draft")]


def test_packages_without_the_program_replace_nothing(programs: Path) -> None:
    unpack_newer_qemu(print)
    tool(programs, "dpkg-deb", 'mkdir -p "$3/usr/bin"')
    with pytest.raises(LabError, match=rf"^the package names .*, which is neither {PROGRAM} nor a folder"):
        unpack_newer_qemu(print)
    assert qemu_at(unpacked_folder(), "the cache").version == (10, 0, 2)


MEMINFO = "MemTotal:       65756516 kB\nMemFree:         1268444 kB\nMemAvailable:    8388608 kB\nBuffers: 4 kB\n"
V1 = "9:name=systemd:/\n5:cpu,cpuacct:/docker/ab12\n4:memory:/docker/ab12\n0::/\n"
V2 = "0::/user.slice/runner.service\n"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the files of a machine with 64 processors and 8 GiB of free memory, which has no control groups yet."""
    monkeypatch.setattr(qemu, "_ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    write(tmp_path, {"proc/meminfo": MEMINFO})


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "processors", "mib"),
    [
        ({}, 64, 8192),
        # A container of Docker with --cpus 2 and --memory 3g: its own group is the top of its tree.
        ({"proc/self/cgroup": V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "3221225472\n"}, 2, 3072),
        ({"proc/self/cgroup": V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 64, 8192),
        # The slice limits the service.
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/user.slice/cpu.max": "350000 100000\n",
          "sys/fs/cgroup/user.slice/runner.service/cpu.max": "max 100000\n",
          "sys/fs/cgroup/user.slice/memory.max": "max\n",
          "sys/fs/cgroup/user.slice/runner.service/memory.max": "1073741824\n"}, 3, 1024),
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/user.slice/cpu.max": "50000 100000\n"}, 1, 8192),
    ],
)  # fmt: skip
def test_quotas_and_limits_count(files: Mapping[str, str], processors: int, mib: int, tmp_path: Path) -> None:
    write(tmp_path, files)
    assert (usable_processors(), free_memory() >> 20) == (processors, mib)


class Waits(Exception):
    """A guest would wait."""


def wait() -> None:
    raise Waits


def test_guests_wait_for_memory_but_one_always_runs() -> None:
    own, gib = Room(), 1 << 30
    with own.guest(5 * gib, wait):
        with own.guest(3 * gib, wait), pytest.raises(Waits), own.guest(1, wait):
            pass
        with own.guest(2 * gib, wait), own.guest(gib, wait):
            pass
    with own.guest(100 * gib, wait):
        pass
