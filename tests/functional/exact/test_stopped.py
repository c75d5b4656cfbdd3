"""Exact gates of two NICs: Ctrl-C leaves no QEMU and no half boot, and two workers share the NICs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pytest_pinet.cli.command import INTERRUPTED
from pytest_pinet.emulated.image import KERNEL, kernel_package
from pytest_pinet.exact.qemu import PROGRAM
from tests.support.gate_project import PINET

pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is missing"),
]
NICS = ("e1000e", "virtio-net")
WORKERS = ("-n", "2")


@contextmanager
def gate(folder: Path, environment: Mapping[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a gate of Debian's kernel against itself, in a process group of its own, as in a terminal."""
    nics = [f"--pinet-nic={nic}" for nic in NICS]
    process = subprocess.Popen(
        [PINET, "gate", "--exact", kernel_package(KERNEL, print), *nics, "-p", "no:cacheprovider", *words],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def guests(environment: Mapping[str, str]) -> list[int]:
    """Return the processes of QEMU that a gate with this cache started, also if the gate has ended."""
    own = f"XDG_CACHE_HOME={environment['XDG_CACHE_HOME']}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            program = (entry / "cmdline").read_bytes().partition(b"\0")[0]
            if PROGRAM.encode() in program and own in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("words", [(), WORKERS], ids=["alone", "workers"])
def test_ctrl_c_leaves_no_qemu_and_no_half_boot(
    tmp_path: Path, environment: Mapping[str, str], words: tuple[str, ...]
) -> None:
    with gate(tmp_path, environment, *words) as process:
        deadline = time.monotonic() + 120
        while len(guests(environment)) < len(NICS):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "QEMU was not started for both NICs within 120 s"
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED, output
    assert guests(environment) == []
    boots = Path(environment["XDG_CACHE_HOME"], "pinet/exact/boots")
    assert [path.name for path in boots.rglob("*") if "boot." in path.name] == []


def test_two_workers_judge_two_nics(tmp_path: Path, environment: Mapping[str, str]) -> None:
    with gate(tmp_path, environment, *WORKERS) as process:
        output, _ = process.communicate(timeout=900)
    assert process.returncode == 0, output
    assert "24 unchanged; 2 boots\n" in output
