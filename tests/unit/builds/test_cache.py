"""Archives are unpacked once. The cache keeps archives in use, and the last used ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.builds import cache

# Uses an archive until it receives a line.
USER = """
import sys
from pathlib import Path
from pytest_pinet.builds.cache import unpack_once
print(unpack_once([Path(sys.argv[1])], lambda archive: [("text", archive.read_bytes())]), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "KEPT", 2)
    monkeypatch.setattr(cache, "_held", {})
    yield
    release_archives()


def release_archives() -> None:
    """Release the archives, as the end of this process would."""
    for descriptor in cache._held.values():
        os.close(descriptor)
    cache._held.clear()


def unpacked(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).write_text(name)
    return cache.unpack_once([tmp_path / name], lambda archive: [("in/text", archive.read_bytes())])


def test_the_last_used_archives_are_kept(tmp_path: Path) -> None:
    found = []
    for age, name in enumerate("abc"):
        found.append(unpacked(tmp_path, name))
        os.utime(found[-1], (age, age))
        release_archives()
    # All are old. The first is used again, so the next new archive removes the two others.
    assert unpacked(tmp_path, "b") == found[1]
    release_archives()
    found.append(unpacked(tmp_path, "d"))
    assert [path.is_dir() for path in found] == [False, True, False, True]
    assert {path.name for path in cache.folder().iterdir()} == {found[1].name, found[3].name}


def test_archives_in_use_by_this_process_are_kept(tmp_path: Path) -> None:
    found = [unpacked(tmp_path, name) for name in "abcd"]
    assert [(path / "in/text").read_text() for path in found] == list("abcd")


def test_archives_in_use_by_another_process_are_kept_until_it_ends(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    argv = [sys.executable, "-c", USER, str(tmp_path / "theirs")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        theirs = Path(user.stdout.readline().strip())
        os.utime(theirs, (1, 1))
        for name in "abc":
            unpacked(tmp_path, name)
            release_archives()
        assert (theirs / "text").read_text() == "theirs"
        user.communicate("end\n", timeout=60)
    cache.prune()
    assert not theirs.exists()


def test_more_indexes_of_module_trees_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "INDEXES_KEPT", 3)
    for age in range(5):
        index = cache.folder() / f"{cache.INDEX}{age}"
        index.mkdir(parents=True)
        os.utime(index, (age, age))
    found = unpacked(tmp_path, "a")
    kept = {path.name for path in cache.folder().iterdir()}
    assert kept == {found.name, *(f"{cache.INDEX}{age}" for age in (2, 3, 4))}


def test_a_removed_archive_is_unpacked_again(tmp_path: Path) -> None:
    found = unpacked(tmp_path, "a")
    (found / "in/text").unlink()
    (found / "in").rmdir()
    found.rmdir()
    assert (unpacked(tmp_path, "a") / "in/text").read_text() == "a"


def test_a_failed_unpacking_leaves_no_files(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("x")

    def broken(archive: Path) -> Iterator[tuple[str, bytes]]:
        yield "in/text", b"a part"
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        cache.unpack_once([tmp_path / "broken"], broken)
    assert list(cache.folder().iterdir()) == []
