"""Commands that need root, for any login user."""

import subprocess
from pathlib import Path

import pytest

from pytest_pinet.execution.shell import as_root


def test_root_runs_it_itself_with_the_quoting_kept() -> None:
    done = subprocess.run(["sh", "-c", as_root('echo "it\'s $(id -u)"; exit 3')], capture_output=True, text=True)
    if subprocess.run(["id", "-u"], capture_output=True, text=True).stdout.strip() != "0":
        pytest.skip("needs root")
    assert (done.returncode, done.stdout) == (3, "it's 0\n")


def test_another_user_goes_through_sudo(tmp_path: Path) -> None:
    for name, script in (("id", "echo 1000"), ("sudo", 'echo "sudo $*"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", as_root("ip link set eth0 up")],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert done.stdout == "sudo -n sh -c PATH=$PATH:/usr/sbin:/sbin; ip link set eth0 up\n"
