"""The run folder ``.pinet/runs/RUN/``, which holds all files of one run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from pytest_pinet.execution.files import write_file, writing
from pytest_pinet.history.results_file import HEAD, LINES, UNENDED, unended_in
from pytest_pinet.model.record.result import ResultRecord, RunRecord

OPTION = "--pinet-run-dir"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]+")


def safe_name(text: str) -> str:
    """Return a folder name for any id: a readable part in plain letters, and a hash that makes the name unique.

    It is short, so that a path below ``.pinet`` fits one line of a failure text.
    """
    readable = _NOT_PLAIN.sub("_", text.rpartition("::")[2].rpartition("[")[2]).strip("_")[:22]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{readable}-{digest}" if readable else digest


class RunFolder:
    """The folder of one run. The controller creates it; a worker opens it by its path.

    Every method raises ConfigError if the disk is full or the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, root: Path, started: datetime) -> RunFolder:
        """Create ``root/.pinet/runs/RUN``, named after the UTC time, and point ``root/.pinet/latest`` to it."""
        base = root / ".pinet"
        with writing(base, OPTION):
            (base / "runs").mkdir(parents=True, exist_ok=True)
            ignore = base / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="ascii")
            path = _new_folder(base / "runs", started.astimezone(UTC).strftime("%Y%m%d-%H%M%S"))
            _point(base / "latest", Path("runs") / path.name)
        return cls(path)

    @property
    def run(self) -> str:
        return self.path.name

    def begin(self, run: RunRecord) -> None:
        """Write ``run.json``, which describes the run if it never ends. The file is locked while this process lives."""
        path = self.path / HEAD
        write_json(path, run, OPTION)
        with writing(path, OPTION):
            # A run that is killed during its first test has results, too: the tests that did not end.
            path.with_name(LINES).touch()
            descriptor = os.open(path, os.O_RDWR)
            weakref.finalize(self, os.close, descriptor)
            # Not every file system has locks. Without a lock a running run looks like a killed one.
            with suppress(OSError):
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write_results(self, run: RunRecord) -> None:
        """Write ``results.json`` atomically. It has the records of tests that did not end, too."""
        write_json(self.path / "results.json", run, OPTION)
        with writing(self.path, OPTION):
            (self.path / UNENDED).unlink(missing_ok=True)

    def append(self, result: ResultRecord) -> None:
        """Append one result to ``results.jsonl`` at once, so that it survives a ``kill -9`` of the run."""
        self._append(LINES, [result.dump()])

    def note_collected(self, records: Sequence[ResultRecord]) -> None:
        """Write the records that tests have until they end. All workers write the same, so the first one does.

        If two write at once, the lines of both say the same, and no test has begun yet.
        """
        if records and not (self.path / UNENDED).exists():
            self._append(UNENDED, [{"test": one.test, "left": one.dump()} for one in records])

    def note_unended(self, test: str, record: ResultRecord | None) -> None:
        """Write the record of a test that has begun; None if the test has ended."""
        self._append(UNENDED, [{"test": test, "left": None if record is None else record.dump()}])

    def unended(self) -> list[ResultRecord]:
        return unended_in(self.path / UNENDED)

    def _append(self, name: str, lines: Iterable[object]) -> None:
        texts = [json.dumps(line, ensure_ascii=True, allow_nan=False) for line in lines]
        content = "".join(f"{text}\n" for text in texts).encode("ascii")
        path = self.path / name
        with writing(path, OPTION):
            # Unbuffered and in one call, so that lines of several workers do not mix.
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                while content:
                    content = content[os.write(descriptor, content) :]
            finally:
                os.close(descriptor)

    def write_raw(self, result_id: str, files: Mapping[str, str]) -> list[str]:
        """Write raw output files and return their paths in the run folder. A rerun gets a folder of its own."""
        raw = self.path / "raw"
        with writing(raw, OPTION):
            raw.mkdir(parents=True, exist_ok=True)
            folder = _new_folder(raw, safe_name(result_id))
            paths = []
            for name, content in files.items():
                path = folder / (name if _PLAIN_NAME.fullmatch(name) else safe_name(name))
                path.write_bytes(content.encode("utf-8", "backslashreplace"))
                paths.append(path.relative_to(self.path).as_posix())
        return paths

    def add_raw(self, files: Sequence[str], name: str, content: str) -> list[str]:
        """Write one more file beside these raw files, and return the paths of all."""
        if not files:
            return []
        path = (self.path / files[0]).with_name(name)
        with writing(path, OPTION):
            path.write_bytes(content.encode("utf-8", "backslashreplace"))
        return [*files, path.relative_to(self.path).as_posix()]


def _new_folder(parent: Path, name: str) -> Path:
    """Create ``parent/name``, or with ``-2``, ``-3`` and so on if it exists. The atomic mkdir decides between runs."""
    for number in count(1):
        path = parent / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            path.mkdir()
            break
    return path


def _point(link: Path, target: Path) -> None:
    """Make ``link`` a symbolic link to ``target`` atomically: at no time is there no link."""
    temporary = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    temporary.symlink_to(target)
    try:
        temporary.replace(link)
    except OSError:
        temporary.unlink()
        raise


def write_json(path: Path, run: RunRecord, option: str = "--pinet-json") -> None:
    """Write ``run`` to ``path``. Raises ConfigError."""
    with writing(path, option):
        write_file(path, [json_text(run).encode("ascii")])


def json_text(run: RunRecord) -> str:
    """Return the JSON of a run in ASCII, which escapes lone surrogates from undecodable console bytes."""
    # nan is a bug and not valid JSON.
    return json.dumps(run.dump(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"
