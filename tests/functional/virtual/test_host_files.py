"""A package manager or useradd of the host replaces files of /etc by a rename. A running board keeps its own files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small_virtual_lab import bench_up

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]

ROOT = Path(__file__).parents[3]
# The files that useradd replaces, and one that a package brings.
REPLACED = ("passwd", "group", "shadow", "login.defs")
# The machine of this lab is a mount namespace with its own /etc, so the files of the real machine stay.
MACHINE = """
cp -a /etc "$1/etc"
mount --bind "$1/etc" /etc
shift
exec "$@"
"""
IN_THE_MACHINE = "import sys; from tests.functional.virtual.test_host_files import replace_files as r; r(sys.argv[1])"


def replace_files(folder: str) -> None:
    """Run a lab, replace the files of the machine while a board runs, and print what the board reads before and after.

    Runs in the mount namespace of the test.
    """
    with bench_up(Path(folder)) as bench:
        bench.boot("left")
        read = "cd /etc && cat hostname hosts environment " + " ".join(REPLACED)
        before = bench.ssh("left", read)
        for name in REPLACED:
            new = Path("/etc", f"{name}+")
            new.write_text(Path("/etc", name).read_text() + "# new\n")
            new.rename(Path("/etc", name))
        after = bench.ssh("left", read)
        assert "new" in Path("/etc/passwd").read_text()
    assert after == before
    assert "sshd:x:100:65534::/run/sshd" in after
    assert after.startswith("left\n127.0.0.1 localhost left\n")


def test_a_board_keeps_its_files_if_the_host_replaces_its_own(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    machine = ["unshare", "--mount", "sh", "-euc", MACHINE, "machine", str(tmp_path)]
    argv = [*machine, sys.executable, "-c", IN_THE_MACHINE, str(tmp_path / "lab")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
