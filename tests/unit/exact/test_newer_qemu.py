"""A newer QEMU is unpacked beside the installed one, by stand-ins of apt and dpkg."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.exact.qemu import PROGRAM, qemu_at, unpack_newer_qemu, unpacked_folder
from tests.support.apt_programs import LISTS, tool

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
