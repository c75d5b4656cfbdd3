"""How many guests run at the same time, from recorded files of control groups of both versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_pinet.exact import qemu
from pytest_pinet.exact.qemu import Room, free_memory, usable_processors

MEMINFO = "MemTotal:       65756516 kB\nMemFree:         1268444 kB\nMemAvailable:    8388608 kB\nBuffers: 4 kB\n"
V1 = "9:name=systemd:/\n5:cpu,cpuacct:/docker/ab12\n4:memory:/docker/ab12\n0::/\n"
V2 = "0::/user.slice/runner.service\n"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the files of a machine with 64 processors and 8 GiB of free memory, which has no control groups yet."""
    monkeypatch.setattr(qemu, "_ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    write(tmp_path, {"proc/meminfo": MEMINFO})


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "processors", "mib"),
    [
        ({}, 64, 8192),
        # A container of Docker with --cpus 2 and --memory 3g: its own group is the top of its tree.
        ({"proc/self/cgroup": V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "3221225472\n"}, 2, 3072),
        ({"proc/self/cgroup": V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 64, 8192),
        # The slice limits the service.
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/user.slice/cpu.max": "350000 100000\n",
          "sys/fs/cgroup/user.slice/runner.service/cpu.max": "max 100000\n",
          "sys/fs/cgroup/user.slice/memory.max": "max\n",
          "sys/fs/cgroup/user.slice/runner.service/memory.max": "1073741824\n"}, 3, 1024),
        ({"proc/self/cgroup": V2, "sys/fs/cgroup/user.slice/cpu.max": "50000 100000\n"}, 1, 8192),
    ],
)  # fmt: skip
def test_quotas_and_limits_count(files: Mapping[str, str], processors: int, mib: int, tmp_path: Path) -> None:
    write(tmp_path, files)
    assert (usable_processors(), free_memory() >> 20) == (processors, mib)


class Waits(Exception):
    """A guest would wait."""


def wait() -> None:
    raise Waits


def test_guests_wait_for_memory_but_one_always_runs() -> None:
    own, gib = Room(), 1 << 30
    with own.guest(5 * gib, wait):
        with own.guest(3 * gib, wait), pytest.raises(Waits), own.guest(1, wait):
            pass
        with own.guest(2 * gib, wait), own.guest(gib, wait):
            pass
    with own.guest(100 * gib, wait):
        pass
