"""Files at paths of the user: regular files are replaced as a whole; devices, links and pipes stay."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.output_file import write_file, writing

ROOT = Path(__file__).parents[3]
WRITE = "import sys; from pathlib import Path; from pytest_pinet.execution.output_file import write_file\n"


def test_a_regular_file_keeps_its_mode_and_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    path.chmod(0o640)
    before = path.stat()
    write_file(path, [b"new", b"er"])
    assert path.read_text() == "newer"
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mode == before.st_mode


def test_an_error_in_between_leaves_the_old_file(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("no more")

    path = tmp_path / "history.jsonl"
    path.write_text("old")
    with pytest.raises(RuntimeError):
        write_file(path, chunks())
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("history.jsonl", "old")]


def test_what_is_no_regular_file_is_written_into(tmp_path: Path) -> None:
    target, link, fifo = tmp_path / "target", tmp_path / "link", tmp_path / "fifo"
    target.write_text("a longer text")
    link.symlink_to(target)
    node = target.stat().st_ino
    write_file(link, [b"new"])
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_ino) == ("new", node)

    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()))
    reader.start()
    write_file(fifo, [b"through", b" it"])
    reader.join(10)
    assert read == ["through it"]
    assert fifo.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link", "target"]


@pytest.mark.parametrize("path", ["/dev/stdout", "/proc/self/fd/1"])
def test_standard_output_gets_the_text_between_other_texts(tmp_path: Path, path: str) -> None:
    out = tmp_path / "log"
    out.write_text("before\n")
    code = WRITE + f"print('one'); write_file(Path('{path}'), [b'two\\n']); print('three')"
    with out.open("a") as log:
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=log, check=True)
    assert out.read_text().splitlines() == ["before", "one", "two", "three"]
    piped = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert piped.stdout.splitlines() == ["one", "two", "three"]
    assert Path("/dev/stdout").is_symlink()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/full", "No space left on device"),
        ("/proc/x/y", "No such file or directory"),
        ("a\0b", "embedded null byte"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(path: str, why: str) -> None:
    with pytest.raises(ConfigError, match=r"choose another with -o$") as caught, writing(path, "-o"):
        write_file(Path(path), [b"x"])
    assert why in str(caught.value)
