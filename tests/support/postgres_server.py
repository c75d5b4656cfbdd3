"""A real PostgreSQL server on a loopback port."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port

STARTS_WITHIN_S = 60


def binaries() -> Path | None:
    """Return the folder of initdb: from PATH, or Debian's folder."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


def as_user(command: Sequence[str]) -> list[str]:
    """Return the command for a non-root user, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the URL of a database, whose server ends with the block. Skip the test without PostgreSQL or its driver."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'pytest-pinet[postgres]'")
    tools = binaries()
    if tools is None:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    # Below /tmp, because another user must have access.
    folder = Path(tempfile.mkdtemp(prefix="pinet-pg-", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        data, port = folder / "data", free_port()
        initdb = as_user([str(tools / "initdb"), "-D", str(data), "-A", "trust", "-U", "pinet", "-E", "UTF8", "-N"])
        done = subprocess.run(initdb, capture_output=True, text=True, timeout=120, cwd=folder, check=False)
        assert done.returncode == 0, done.stderr
        command = [str(tools / "postgres"), "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(folder)]
        log = (folder / "log").open("wb")
        process = subprocess.Popen(as_user(command), stdout=log, stderr=log, cwd=folder)
        try:
            _wait(process, port, folder / "log")
            yield f"postgresql://pinet@127.0.0.1:{port}/postgres"
        finally:
            # SIGINT: shut down at once, despite open connections.
            process.send_signal(2)
            process.wait(timeout=30)
            log.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def client(name: str) -> str:
    """Return the path of a client program of the server, such as createdb."""
    return shutil.which(name) or f"{binaries()}/{name}"


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import psycopg

    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user=pinet dbname=postgres", connect_timeout=2).close()
        except psycopg.OperationalError:
            said = log.read_text(errors="replace")
            assert process.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(0.1)
        else:
            return
