"""A selftest of the kernel's own source runs on an emulated board; nothing of it stays there."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_pinet.emulated.image import cache
from pytest_pinet.emulated.packages import Apt
from pytest_pinet.execution.shell import Shell
from pytest_pinet.lab.relay import feed
from tests.support.emulated_gate import NEEDS, card_or_skip, gate_text
from tests.support.gate_project import GateLab, Project
from tests.support.kselftests import TREE

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


pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    *NEEDS,
    pytest.mark.skipif(not TREE, reason="$KERNEL_TREE names no kernel tree"),
]
# Python starts within a minute on such a board.
TEST = """
import pytest

from tests.functional.emulated.test_kselftest import python_on

@pytest.mark.pinet(board="virt", nic="e1000e", topology="pair")
def test_ping(link, gate):
    board = link.dut.shell
    with python_on(board):
        before = board.run("ls -A /tmp /root").stdout
        found = gate.kselftest(link, "drivers/net:ping.py", timeout="20 min")
        assert board.run("ls -A /tmp /root").stdout == before
    assert "ping.test_v4" in found.passed
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[GateLab]:
    file = tmp_path / "emulated.yaml"
    file.write_text(gate_text())
    with card_or_skip():
        lab = GateLab(file)
    try:
        yield lab
    finally:
        lab.down()


def test_the_upstream_ping_test_runs_on_a_board(lab: GateLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    project = Project(tmp_path / "project", lab)
    project.write("test_it.py", TEST)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    )
    done = project.pytest(f"--pinet-kselftest={TREE}", timeout_s=1800)
    text = done.stdout.str()
    (result,) = project.results["results"]
    ktap = (project.path / ".pinet/latest" / result["files"][0]).read_text()
    assert result["verdict"] == "pass", f"{text}\n{ktap}"
    assert "ok 1 selftests: drivers/net: ping.py" in ktap
    assert {one["name"]: one["outcome"] for one in result["kselftest"]["results"]}["ping.test_v4"] == "pass"
    assert "could not undo" not in text
