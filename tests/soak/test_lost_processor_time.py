"""A gate on a machine that loses processor time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.gate_project import LAB_FILE, LINE_RATE_SUITE, lab_up, project_maker

SHARE = 0.1
# The programs end after this time, even if this process is stopped.
LONGEST_S = 900
PROGRAM = """
import os, sys, time
cpu, parent, share, longest_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
end = time.monotonic() + longest_s
while os.getppid() == parent and time.monotonic() < end:
    until = time.monotonic() + 0.1 * share
    while time.monotonic() < until:
        pass
    time.sleep(0.1 * (1 - share))
"""
# What a message says of time that was lost: judge/circumstances.py.
NAMED = ("a hypervisor or a quota took", "other programs took")


@contextmanager
def real_time_programs() -> Iterator[None]:
    """Take a tenth of each processor by a program of real-time priority, which is none of ours."""
    foreign = {name: value for name, value in os.environ.items() if not name.startswith("PINET_")}
    programs: list[subprocess.Popen[bytes]] = []
    try:
        for cpu in sorted(os.sched_getaffinity(0)):
            words = (str(cpu), str(os.getpid()), str(SHARE), str(LONGEST_S))
            programs.append(subprocess.Popen([sys.executable, "-c", PROGRAM, *words], env=foreign))
        time.sleep(0.5)
        if any(one.poll() is not None for one in programs):
            pytest.skip("this machine allows no real-time priority")
        yield
        assert all(one.poll() is None for one in programs), "a program ended before the gate"
    finally:
        for one in programs:
            one.kill()
            one.wait()


@contextmanager
def quota() -> Iterator[None]:
    """Move this process, and the lab and the gate that it starts, into a group with nine tenths of all processors."""
    old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    wanted = "cpu" if old.is_dir() else ""
    path = next((path for _, controllers, path in own if wanted in controllers.split(",")), "/")
    home = (old if old.is_dir() else new) / path.lstrip("/")
    folder = home / f"pinet-soak-{os.getpid()}"
    period_us = 100_000
    quota_us = round(period_us * len(os.sched_getaffinity(0)) * (1 - SHARE))
    try:
        folder.mkdir()
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{quota_us} {period_us}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(period_us))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"this machine has no control groups with CPU quotas to write: {error}")
    try:
        yield
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(50):
            with suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.1)


def statement(thief: Callable[[], AbstractContextManager[None]], how: str) -> object:
    sentence = f"A gate whose machine loses a tenth of each processor {how} passes, or each other result says why."
    return pytest.param(thief, marks=pytest.mark.soak(sentence, runs=2, minutes=15))


@pytest.mark.parametrize(
    "thief", [statement(quota, "by a quota"), statement(real_time_programs, "to real-time programs")]
)
def test_a_gate_beside_a_thief(
    thief: Callable[[], AbstractContextManager[None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = LAB_FILE.read_text()
    assert text.count("scale: auto") == 1
    file = tmp_path_factory.mktemp("lab") / "virtual.yaml"
    # The lab starts beside the thief, since the programs of its nodes must lose time, too.
    with thief(), lab_up(file, text.replace("scale: auto", "scale: 1")) as lab:
        project = project_maker(tmp_path_factory, lab)({})
        options = ("-p", "no:cacheprovider", f"--pinet-run-dir={project.path}")
        output = project.pytest(str(LINE_RATE_SUITE), *options, timeout_s=LONGEST_S - 60)
        results = project.results["results"]
    for one in results:
        print(one["id"], one["verdict"], one["message"])  # noqa: T201  (into the log of the run)
    assert output.ret in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), output.stdout.str()
    assert len(results) >= 12
    silent = [
        one for one in results if one["verdict"] != "pass" and not any(words in _words_of(one) for words in NAMED)
    ]
    assert not silent, [(one["id"], one["verdict"], one["message"]) for one in silent]


def _words_of(result: dict[str, Any]) -> str:
    """Return message and notes, whose lines are wrapped, on one line."""
    return " ".join(" ".join([result["message"], *result["notes"]]).split())
