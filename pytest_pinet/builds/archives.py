"""Unpacks gzip, bzip2, xz, lzma, zstd; packages and archives (.deb, .ipk, .rpm, zip, tar), also one inside another."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import shutil
import stat
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, cast

from pytest_pinet.builds.not_a_build import CARD
from pytest_pinet.execution.shell import last_line

_AR = b"!<arch>\n"
_AR_HEADER = 60
ZSTD_TIMEOUT_S = 120
# Unpacked kernels have up to 100 MB, with debug information 500 MB. A bomb would fill the memory.
MAX_BYTES = 2**29
# All files of an archive. A kernel package has 400 MB.
MAX_ARCHIVE = 2**32
# The files of a folder. All drivers' firmware has 4,000 files, and the modules of a kernel are as many.
MAX_FILES = 20_000
_ZSTD = b"\x28\xb5\x2f\xfd"


class Unreadable(Exception):
    """The data cannot be unpacked. The text says why. Callers outside this package never see this error."""


def _zstd(data: bytes) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        tool = shutil.which("zstd")
        if tool is None:
            raise Unreadable("it is compressed with zstd; install the command zstd, or use Python 3.14") from None
        return _zstd_command(tool, data)
    return _bounded(zstd.ZstdDecompressor, data)


def _zstd_command(tool: str, data: bytes) -> bytes:
    # `head` ends zstd when the content is too large. The status of zstd decides: it may print warnings, too. A
    # warning of `head` could follow the status.
    argv = ["sh", "-c", '{ "$0" -dcq || echo $? >&2; } | head -c "$1" 2>/dev/null', tool, str(MAX_BYTES + 1)]
    try:
        done = subprocess.run(argv, input=data, capture_output=True, timeout=ZSTD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unreadable(f"{tool} takes more than {ZSTD_TIMEOUT_S} seconds to unpack it") from None
    *said, status = done.stderr.decode("utf-8", "replace").splitlines() or [""]
    if status.isdigit() and len(done.stdout) <= MAX_BYTES:
        raise Unreadable(last_line("\n".join(said)) or f"zstd failed with exit status {status}")
    return _checked(done.stdout)


def _checked(plain: bytes) -> bytes:
    if len(plain) > MAX_BYTES:
        raise Unreadable(f"it has more than {MAX_BYTES // 2**20} MiB unpacked")
    return plain


class _Decompressor(Protocol):
    """What the decompressors of Python's libraries have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


def _bounded(kind: Callable[[], _Decompressor], data: bytes) -> bytes:
    """Unpack all streams that follow each other, up to a largest size."""
    plain = b""
    while True:
        packed = kind()
        plain = _checked(plain + packed.decompress(data, MAX_BYTES + 1 - len(plain)))
        if not packed.eof:
            raise EOFError("it is truncated")
        data = packed.unused_data
        # Padding and signatures may follow.
        if not data.strip(b"\0"):
            return plain


def _gzip(data: bytes) -> bytes:
    # Data after the gzip stream (padding, a signature) are ignored.
    packed = zlib.decompressobj(wbits=31)
    plain = _checked(packed.decompress(data, MAX_BYTES + 1))
    if not packed.eof:
        raise EOFError("it is truncated")
    return plain


def _xz(data: bytes) -> bytes:
    return _bounded(lzma.LZMADecompressor, data)


def _bzip2(data: bytes) -> bytes:
    return _bounded(bz2.BZ2Decompressor, data)


_MAGIC: tuple[tuple[bytes, str, Callable[[bytes], bytes]], ...] = (
    (b"\x1f\x8b", "gzip", _gzip),
    (b"\xfd7zXZ\x00", "xz", _xz),
    (_ZSTD, "zstd", _zstd),
    (b"BZh", "bzip2", _bzip2),
    (b"\x5d\x00\x00", "lzma", _xz),
)


# Longer beginnings of streams than the magic number, which occurs by chance in other data.
_LONGER = {"gzip": b"\x1f\x8b\x08", "bzip2": b"BZh9", "lzma": b"\x5d\x00\x00\x00"}
# Unpack one stream, and ignore the data behind it.
_STREAMS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _gzip,
    "xz": lambda data: _checked(lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data, MAX_BYTES + 1)),
    "zstd": _zstd,
    "bzip2": lambda data: _checked(bz2.BZ2Decompressor().decompress(data, MAX_BYTES + 1)),
    "lzma": lambda data: _checked(
        lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=1 << 28).decompress(data, MAX_BYTES + 1)
    ),
}


def unpacked(data: bytes) -> bytes:
    """Return the unpacked content, or the data itself if it is not compressed. Raises Unreadable."""
    for magic, name, unpack in _MAGIC:
        if data.startswith(magic):
            try:
                return unpack(data)
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
                raise Unreadable(f"its {name} data is damaged ({error})") from None
    return data


def embedded(data: bytes) -> Iterator[bytes]:
    """Yield the content of each compressed stream in the data that can be unpacked, in the order of its beginning.

    A kernel image that unpacks itself contains such a stream, with other data before and behind it. The search is that
    of the kernel's scripts/extract-vmlinux.
    """
    starts = sorted(
        (match.start(), name)
        for magic, name, _ in _MAGIC
        for match in re.finditer(re.escape(_LONGER.get(name, magic)), data)
    )
    for at, name in starts:
        try:
            plain = _STREAMS[name](data[at:])
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, Unreadable):
            continue
        if plain:
            yield plain


def deb_data(path: Path) -> bytes:
    """Return the tar archive of a Debian package's files, still compressed. Raises Unreadable, OSError."""
    for name, data in _ar_members(path):
        if name.startswith("data.tar"):
            return data
    raise Unreadable("it is not a Debian package (no data.tar)")


def deb_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the regular files of a Debian package, by path without a leading slash. Raises Unreadable, OSError."""
    yield from tar_files(deb_data(path))


def _ar_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as file:
        if file.read(len(_AR)) != _AR:
            raise Unreadable("it is not a Debian package (no 'ar' archive)")
        while header := file.read(_AR_HEADER):
            try:
                name, size = header[:16].decode("ascii").strip().rstrip("/"), int(header[48:58])
            except ValueError:
                raise Unreadable("its 'ar' archive is damaged") from None
            if not 0 <= size <= MAX_BYTES:
                raise Unreadable(f"its 'ar' archive has a file of {size} bytes")
            data = file.read(size)
            if len(header) < _AR_HEADER or len(data) < size:
                raise Unreadable("it is truncated")
            yield name, data
            file.read(size % 2)


def _stream(data: bytes) -> IO[bytes]:
    """Return a stream that unpacks while it is read, because a kernel package has 300 MB.

    tarfile's own streams read only the first of several compressed streams, which parallel packers write.
    """
    packed = io.BytesIO(data)
    if data.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=packed))
    if data.startswith((b"\xfd7zXZ\x00", b"\x5d\x00\x00")):
        return lzma.open(packed)
    if data.startswith(b"BZh"):
        return bz2.open(packed)
    return io.BytesIO(unpacked(data))


def tar_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the regular files of a tar archive, compressed or not. Raises Unreadable.

    Hard links are files, too. Symbolic links and devices are skipped.
    """
    links: dict[str, list[str]] = {}
    yield from _tar_stream(_stream(data), links)
    if links:
        for name, content in _tar_stream(_stream(data), {}):
            yield from ((link, content) for link in links.get(name, ()))


def _tar_stream(stream: IO[bytes], links: dict[str, list[str]]) -> Iterator[tuple[str, bytes]]:
    """Yield the regular files of a tar archive that is read from a stream. Raises Unreadable.

    Hard links are added to ``links``, by the file that they name.
    """
    whole = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if member.islnk():
                    links.setdefault(_inside(member.linkname), []).append(_inside(member.name))
                if not member.isfile():
                    continue
                whole += member.size
                if not 0 <= member.size <= MAX_BYTES or whole > MAX_ARCHIVE:
                    raise Unreadable(f"its files are too large (at most {MAX_BYTES // 2**20} MiB each)")
                path = _inside(member.name)
                file = archive.extractfile(member)
                if file is not None:
                    yield path, file.read()
    except tarfile.TarError as error:
        raise Unreadable(f"it is not a tar archive ({error})") from None
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise Unreadable(f"its tar archive is damaged ({error})") from None


def _inside(name: str) -> str:
    """Return the path of a file in an archive without a leading slash. Raises Unreadable if it leads out of it."""
    path = PurePosixPath(name.lstrip("/"))
    if ".." in path.parts:
        raise Unreadable(f"it contains a path that leads out of the archive: {name[:80]}")
    return str(path)


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

    Symbolic links and devices are skipped. Raises Unreadable, OSError.
    """
    with path.open("rb") as file:
        magic = file.read(8)
    if path.name.endswith((".deb", ".udeb")) or magic == _DEB:
        yield from _flat(deb_files(path))
    elif magic.startswith(_RPM):
        yield from _rpm_files(path)
    elif magic.startswith(_ZIP):
        yield from _flat(_zip_files(path.read_bytes()))
    elif path.name.endswith(_PACKAGES):
        raise Unreadable(f"it is no {path.suffix} file")
    else:
        yield from _flat(tar_files(path.read_bytes()))


@dataclass
class _Total:
    """The files and octets of an archive and of the archives in it."""

    files: int = 0
    octets: int = 0

    def add(self, size: int) -> None:
        """Count a file. Raises Unreadable if there are too many, or too many octets."""
        self.files += 1
        self.octets += size
        if self.files > MAX_FILES:
            raise Unreadable(f"it has more than {MAX_FILES} files")
        if self.octets > MAX_ARCHIVE:
            raise Unreadable(f"its files are too large (at most {MAX_ARCHIVE / 2**30:g} GiB together)")


def _flat(
    files: Iterable[tuple[str, bytes]], depth: int = 1, total: _Total | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield the files, and in place of each archive its files."""
    total = total or _Total()
    for name, data in files:
        total.add(len(data))
        inner = PurePosixPath(name).name
        if depth >= _DEEPEST or not inner.endswith((*TARS, ".zip")) or inner.startswith("control."):
            yield name, data
        elif holds_parts(inner):
            yield from _flat(_zip_files(data) if data.startswith(_ZIP) else tar_files(data), depth + 1, total)


def _zip_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                mode = member.external_attr >> 16
                if member.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
                    continue
                if member.file_size > MAX_BYTES and member.filename.endswith((".img", ".wic")):
                    raise Unreadable(f"it has {CARD}")
                if member.file_size > MAX_BYTES:
                    raise Unreadable(f"its files are too large (at most {MAX_BYTES // 2**20} MiB each)")
                yield _inside(member.filename), archive.read(member)
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        # RuntimeError: it is encrypted, or packed in an unknown way. OSError: damaged data of bzip2.
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
            # A stream is read once, so hard links, which no package of a kernel has, are skipped.
            yield from _tar_stream(process.stdout, {})
            why = process.stderr.read(1000).decode("utf-8", "replace").strip()
            if process.wait(timeout=RPM_TIMEOUT_S) != 0:
                raise Unreadable(f"its RPM data is damaged ({why})")
        finally:
            process.kill()
