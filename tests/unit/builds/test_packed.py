"""Archives in all forms that packers write."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
from collections.abc import Callable

import pytest

from pytest_pinet.builds.archives import Unreadable, _zstd_command, tar_files
from tests.support import build_files as made

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
