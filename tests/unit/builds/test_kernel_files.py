"""Packed kernels and modules, and the part of a module that an exact board gets."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pinet.builds import archives
from pytest_pinet.builds.archives import Unreadable, _zstd_command, tar_files
from pytest_pinet.builds.kernel_files import loaded_part, read_module
from pytest_pinet.evidence import elf
from tests.support import build_files as made
from tests.support.build_files import module

FILES = {"a": b"1" * 20_000, "lib/b": b"2"}
TAR = made.tar(FILES)
HALF = len(TAR) // 2


def _lzma(preset: int) -> Callable[[bytes], bytes]:
    return lambda data: lzma.compress(data, lzma.FORMAT_ALONE, preset=preset)


@pytest.mark.parametrize(
    "packed",
    [
        TAR,
        *(pack(TAR) for pack in (gzip.compress, bz2.compress, lzma.compress, _lzma(0), _lzma(6), _lzma(9))),
        # pigz, pbzip2 and pixz write several streams, one after the other.
        *(pack(TAR[:HALF]) + pack(TAR[HALF:]) for pack in (gzip.compress, bz2.compress, lzma.compress)),
    ],
    ids=["plain", "gz", "bz2", "xz", "lzma 0", "lzma 6", "lzma 9", "gz of two", "bz2 of two", "xz of two"],
)
def test_an_archive_is_read(packed: bytes) -> None:
    assert dict(tar_files(packed)) == FILES


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_truncated_archive_is_named_as_damaged(pack: Callable[[bytes], bytes]) -> None:
    whole = pack(TAR)
    with pytest.raises(Unreadable, match="its tar archive is damaged"):
        dict(tar_files(whole[: len(whole) // 2]))


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
def test_the_status_of_zstd_decides_not_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent/libarmmem.so")
    packed = subprocess.run(["zstd", "-c"], input=TAR, check=True, capture_output=True).stdout
    assert _zstd_command("zstd", packed) == TAR
    with pytest.raises(Unreadable, match="premature end"):
        _zstd_command("zstd", packed[:-9])
    with pytest.raises(Unreadable, match="unsupported format"):
        _zstd_command("zstd", b"no zstd")


def test_a_zstd_that_does_not_end_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "zstd"
    slow.write_text("#!/bin/sh\nsleep 3\n")
    slow.chmod(0o755)
    monkeypatch.setattr(archives, "ZSTD_TIMEOUT_S", 0.1)
    with pytest.raises(Unreadable, match=rf"^{slow} takes more than 0.1 seconds to unpack it$"):
        _zstd_command(str(slow), b"")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 unpacks zstd itself")
def test_without_zstd_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unreadable, match=r"^it is compressed with zstd; install the command zstd, or use Python 3\.14"):
        dict(tar_files(b"\x28\xb5\x2f\xfd"))


SOURCE = """
static int count;
char text[5000];
const char info[] __attribute__((section(".modinfo"), used)) = "vermagic=6.1.0 SMP aarch64\\0name=one";
int more(void);
int receive(int packets) { count += packets; return more() + count; }
"""
# Of this machine: `make test` runs without the cross compiler, and the format is the same.
COMPILER, READER = "cc", "readelf"
NAMES = (".comment", ".debug_info", ".debug_line", ".rela.debug_info", ".note.GNU-stack")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return one source, compiled with and without debug information."""
    if shutil.which(COMPILER) is None or shutil.which(READER) is None:
        pytest.skip(f"{COMPILER} or {READER} is missing")
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "one.c").write_text(SOURCE)
    for option in ("-g", "-g0"):
        words = [COMPILER, option, "-O2", "-ffreestanding", "-fno-pic", "-c", "one.c", "-o", f"one{option}.o"]
        subprocess.run(words, cwd=folder, check=True, timeout=60)
    return {option: (folder / f"one{option}.o").read_bytes() for option in ("-g", "-g0")}


def read(data: bytes, folder: Path, *options: str) -> list[str]:
    """Return what readelf says, without the places in the file. A warning is an error."""
    (folder / "read.o").write_bytes(data)
    done = subprocess.run([READER, "-W", *options, "read.o"], cwd=folder, check=True, capture_output=True, timeout=60)
    assert not done.stderr, done.stderr
    return [line.split(" at offset ")[0] for line in done.stdout.decode().splitlines()]


def test_debug_information_goes_and_all_else_stays(compiled: dict[str, bytes], tmp_path: Path) -> None:
    data = compiled["-g"]
    left = loaded_part(data)
    assert all(elf.section(data, name) is not None and elf.section(left, name) is None for name in NAMES)
    for name in (".text", ".rela.text", ".modinfo", ".symtab", ".strtab"):
        assert elf.section(left, name) == elf.section(data, name)
    (before, after) = (read(one, tmp_path, "-r") for one in (data, left))
    assert [line for line in after if "receive" in line or "more" in line] != []
    assert {*after} < {*before}
    assert len(left) < len(data) - 1000
    assert loaded_part(left) == left


def test_debug_information_makes_no_other_code(compiled: dict[str, bytes], tmp_path: Path) -> None:
    left, plain = loaded_part(compiled["-g"]), loaded_part(compiled["-g0"])
    assert elf.section(left, ".text") == elf.section(plain, ".text")
    # Headers of empty sections, and symbols of the sections that went, are all that is left.
    assert len(left) - len(plain) < 2500


@pytest.mark.parametrize("size", [1, 4999, 70_000])
def test_padding_is_loaded_and_changes_no_other_section(compiled: dict[str, bytes], tmp_path: Path, size: int) -> None:
    left, padded = loaded_part(compiled["-g"]), loaded_part(compiled["-g"], size)
    sections = read(padded, tmp_path, "-S")
    (own,) = (line for line in sections if ".pinet.padding" in line)
    assert int(own.split()[own.split().index("PROGBITS") + 3], 16) == size
    assert " A " in own
    assert read(padded, tmp_path, "-s") == read(left, tmp_path, "-s")
    assert read(padded, tmp_path, "-r") == read(left, tmp_path, "-r")


def test_a_module_is_known_as_before() -> None:
    data = module("macb", depends="phylink", aliases=("of:N*", "pci:v1"))
    assert read_module(loaded_part(data), "macb.ko") == read_module(data, "macb.ko")


def test_the_signature_behind_a_module_goes() -> None:
    assert loaded_part(module("macb") + b"~Module signature appended~\n") == loaded_part(module("macb"))


@pytest.mark.parametrize("size", [0, 3, 63, 64, 200, 400])
def test_a_file_that_ends_early_is_one_sentence(size: int) -> None:
    with pytest.raises(Unreadable, match=r"^(it is not a 64-bit little-endian ELF file|its ELF sections are damaged)$"):
        loaded_part(module("macb")[:size])


@pytest.mark.parametrize("value", [0, 1, 0x7F, 0xFF])
def test_damage_at_each_place_is_harmless(value: int) -> None:
    """A damaged file gives other data, or one error. The kernel checks what it gets."""
    data = module("macb")
    for place in range(len(data)):
        try:
            found = loaded_part(data[:place] + bytes([value]) + data[place + 1 :], 100)
        except Unreadable:
            continue
        assert len(data) < len(found) + 500 < len(data) + 1000
