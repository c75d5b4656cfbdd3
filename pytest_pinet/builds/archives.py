"""Reads the files of packages and archives: .deb, .ipk, .rpm, zip and tar, also one inside another."""

from __future__ import annotations

import io
import shutil
import stat
import subprocess
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from pytest_pinet.builds.not_a_build import CARD
from pytest_pinet.builds.packed import MAX_ARCHIVE, MAX_BYTES, MAX_FILES, Unreadable, deb_files, tar_files, tar_stream

# An Alpine or OpenWrt package is a tar archive, too.
TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.zst", ".tar.bz2", ".tar.lzma", ".ipk", ".apk")
_PACKAGES = (".deb", ".udeb", ".rpm", ".zip")
_DEB, _RPM, _ZIP = b"!<arch>\n", b"\xed\xab\xee\xdb", b"PK\x03\x04"
# What stands beside a kernel and holds no part of a build. Some have several GB.
_OTHERS = (
    *("-headers", "-dbg", "libc-dev", "-debuginfo", "kernel-debug", "-devel", "-source", "linux-doc", "-tools"),
    *("rootfs", "core-image", "spdx", "-sdk", "-toolchain"),
)
# GitHub packs the tar archive of a job into a zip, and an .ipk has its files in data.tar.gz.
_DEEPEST = 3
RPM_TIMEOUT_S = 120


def is_archive(name: str) -> bool:
    """Return whether a file's name is that of a package or an archive."""
    return name.endswith((*TARS, *_PACKAGES))


def holds_parts(name: str) -> bool:
    """Return whether a package or archive of this name may have a kernel, modules or device trees."""
    return not any(part in name for part in _OTHERS)


def archive_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the regular files of a package or archive by path, also the files of archives in it.

    Links and devices are skipped. Raises Unreadable, OSError.
    """
    with path.open("rb") as file:
        magic = file.read(8)
    if path.name.endswith((".deb", ".udeb")) or magic == _DEB:
        yield from _flat(deb_files(path), 1)
    elif magic.startswith(_RPM):
        yield from _rpm_files(path)
    elif magic.startswith(_ZIP):
        yield from _flat(_zip_files(path.read_bytes()), 1)
    elif path.name.endswith(_PACKAGES):
        raise Unreadable(f"it is no {path.suffix} file")
    else:
        yield from _flat(tar_files(path.read_bytes()), 1)


def _flat(files: Iterable[tuple[str, bytes]], depth: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files, and in place of each archive its files."""
    for number, (name, data) in enumerate(files):
        if number >= MAX_FILES:
            raise Unreadable(f"it has more than {MAX_FILES} files")
        inner = PurePosixPath(name).name
        if depth >= _DEEPEST or not inner.endswith((*TARS, ".zip")) or inner.startswith("control."):
            yield name, data
        elif holds_parts(inner):
            yield from _flat(_zip_files(data) if data.startswith(_ZIP) else tar_files(data), depth + 1)


def _zip_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    whole = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                mode = member.external_attr >> 16
                if member.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
                    continue
                whole += member.file_size
                if member.file_size > MAX_BYTES and member.filename.endswith((".img", ".wic")):
                    raise Unreadable(f"it has {CARD}")
                if member.file_size > MAX_BYTES or whole > MAX_ARCHIVE:
                    raise Unreadable(f"its files are too large (at most {MAX_BYTES // 2**20} MiB each)")
                path = PurePosixPath(member.filename.lstrip("/"))
                if ".." in path.parts:
                    raise Unreadable(f"it contains a path that leads out of the archive: {member.filename[:80]}")
                yield str(path), archive.read(member)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        # RuntimeError: it is encrypted.
        raise Unreadable(f"its zip archive cannot be read ({error})") from None


def _rpm_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an RPM package, which libarchive's bsdtar turns into a tar archive."""
    tool = shutil.which("bsdtar")
    if tool is None:
        raise Unreadable(
            "it is an RPM package, which the command bsdtar reads: install libarchive-tools (Debian) or bsdtar "
            "(Fedora), or unpack it with 'rpm2cpio FILE | cpio -idm' and name the folder"
        )
    argv = [tool, "--format=pax", "-cf", "-", f"@{path.resolve()}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield from tar_stream(process.stdout)
            why = process.stderr.read(1000).decode("utf-8", "replace").strip()
            if process.wait(timeout=RPM_TIMEOUT_S) != 0:
                raise Unreadable(f"its RPM data is damaged ({why})")
        finally:
            process.kill()
