"""Files at paths of the user: regular files are replaced as a whole; devices, links and pipes stay."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError, OutputError
from pytest_pinet.execution import files
from pytest_pinet.execution.files import write_file, writing

ROOT = Path(__file__).parents[3]
WRITE = "import sys; from pathlib import Path; from pytest_pinet.execution.files import write_file\n"


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


# More than one buffer, from a source that gives each part once.
LONG = "(b'x' * 999 + b'\\n' for _ in range(100))"


def test_a_full_disk_behind_standard_output_is_an_error() -> None:
    for chunks in ("iter([b'a line'])", LONG):
        code = WRITE + f"write_file(Path('/dev/stdout'), {chunks})"
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert "OSError: [Errno 28] No space left on device" in done.stderr


def test_a_file_behind_standard_output_keeps_what_it_has_if_the_rest_does_not_fit(tmp_path: Path) -> None:
    out = tmp_path / "log"
    out.write_text("before\n")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
    code = WRITE + limit + f"write_file(Path('/dev/stdout'), {LONG})"
    with out.open("a") as log:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=log, stderr=subprocess.PIPE, text=True, check=False
        )
    assert "OSError: [Errno 27] File too large" in done.stderr
    assert out.read_text() == "before\n" + ("x" * 999 + "\n") * 4 + "x" * 993


def test_a_pipe_that_no_program_reads_is_not_waited_for_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "READER_TIMEOUT_S", 0.1)
    os.mkfifo(fifo := tmp_path / "fifo")
    message = f"cannot write {fifo}: no program opened this pipe for reading within 0.1 s; choose another with -o"
    with pytest.raises(OutputError, match=f"^{re.escape(message)}$"), writing(fifo, "-o"):
        write_file(fifo, [b"x"])
    assert fifo.is_fifo()


def test_a_file_that_is_open_for_reading_is_named() -> None:
    with Path("/etc/passwd").open() as file:
        path = f"/dev/fd/{file.fileno()}"
        message = f"^cannot write {path}: it is closed, or open only for reading$"
        with pytest.raises(OutputError, match=message), writing(path):
            write_file(Path(path), [b"x"])


@pytest.mark.parametrize(
    ("path", "why", "kind"),
    [
        ("/dev/full", "No space left on device", OutputError),
        ("/proc/x/y", "No such file or directory", ConfigError),
        ("/proc", "Is a directory", ConfigError),
        ("/proc/version/x", "/proc/version is no folder", ConfigError),
        ("a\0b", "its name has a NUL character", ConfigError),
    ],
)
def test_what_cannot_be_written_is_one_sentence(path: str, why: str, kind: type[ConfigError]) -> None:
    with pytest.raises(ConfigError) as caught, writing(path, "-o"):
        write_file(Path(path), [b"x"])
    shown = path.replace("\0", r"\x00")
    assert str(caught.value) == f"cannot write {shown}: {why}; choose another with -o"
    assert type(caught.value) is kind
