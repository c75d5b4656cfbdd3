"""Python and PyYAML of Debian for a board that has none: unpacked into a folder of its own, and removed again."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_pinet.emulated.image import cache
from pytest_pinet.emulated.packages import Apt
from pytest_pinet.execution.shell import Shell
from pytest_pinet.lab.relay import feed

FOLDER = "/var/tmp/python"
_PACKAGES = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "python3-yaml"),
    *("libyaml-0-2", "libexpat1", "zlib1g", "libffi8"),
)
_START = f"""#!/bin/sh
export LD_LIBRARY_PATH={FOLDER}/usr/lib/aarch64-linux-gnu:{FOLDER}/lib/aarch64-linux-gnu
export PYTHONPATH={FOLDER}/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1
exec {FOLDER}/usr/bin/python3.11 "$@"
"""
_LEFT_OUT = ("test", "lib2to3", "distutils", "ensurepip", "unittest", "doc", "man")


@contextmanager
def python_on(board: Shell) -> Iterator[None]:
    """Give a board the command python3."""
    with tempfile.TemporaryDirectory() as temporary:
        root, archive = Path(temporary) / "root", Path(temporary) / "python.tar.gz"
        apt = Apt(cache() / "apt", print)
        for name in _PACKAGES:
            subprocess.run(["dpkg-deb", "-x", apt.fetch(name), root], check=True)
        with tarfile.open(archive, "w:gz", compresslevel=1, dereference=False) as tar:
            tar.add(root, ".", filter=lambda one: None if {*_LEFT_OUT} & {*one.name.split("/")} else one)
        done = feed(board, f"mkdir -p {FOLDER} && tar -xzf - -C {FOLDER}", archive)
    assert done.returncode == 0, done.stderr
    link = f"mkdir -p /usr/local/bin && ln -sf {FOLDER}/start /usr/local/bin/python3"
    start = f"cat >{FOLDER}/start && chmod 755 {FOLDER}/start && {link}"
    done = feed(board, start, _START.encode())
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        board.run(f"rm -rf {FOLDER} /usr/local/bin/python3", 60)
