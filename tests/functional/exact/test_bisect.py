"""``git bisect run pinet gate --exact --bisect`` over 64 commits to e1000e, one of them slow. One boot a commit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.console_blocks import ROOT
from tests.support.driver_builds import driver_sources
from tests.support.gate_project import PINET

pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(shutil.which("qemu-system-aarch64") is None, reason="QEMU for arm64 is missing"),
]
COMMITS, SLOW = 64, 41
TIMEOUT_S = 3000.0
# Where the series changes the driver: the first line of the function that gets each received packet.
PLACE = "\tu16 tag = le16_to_cpu(vlan);\n"
LONGER = '\n\tint pass;\n\n\tfor (pass = 0; pass < 200; pass++)\n\t\tasm volatile("nop");\n'
STEP = """#!/bin/sh
# git bisect run calls this for each commit.
{make} || exit 125
exec {pinet} gate --exact e1000e.ko --bisect --against {good} --nic=e1000e -q -p no:cacheprovider \
--run-dir={runs} >> {log} 2>&1
"""


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=series", "-c", "user.email=series@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commit(folder: Path, number: int) -> None:
    """Make one change to the driver: a parameter, a counter or a comment; the slow one also waits for each packet."""
    path = folder / "netdev.c"
    text = path.read_text()
    change = (
        f"static int series_{number};\nmodule_param(series_{number}, int, 0444);\n",
        f"static unsigned long series_count_{number} __maybe_unused;\n",
        f"/* series: step {number} */\n",
    )[number % 3]
    text = text.replace("char e1000e_driver_name[]", f"{change}\nchar e1000e_driver_name[]", 1)
    if number == SLOW:
        text = text.replace(PLACE, PLACE + LONGER, 1)
    path.write_text(text)
    git(folder, "commit", "-qam", f"e1000e: step {number}")


def test_one_slow_commit_of_64_is_found(tmp_path: Path) -> None:
    work, good = tmp_path / "e1000e", tmp_path / "good.ko"
    make = driver_sources(work)
    subprocess.run(make, check=True, timeout=600)
    shutil.copy(work / "e1000e.ko", good)
    git(work, "init", "-q")
    (work / ".gitignore").write_text("*.o\n*.ko\n*.mod*\n.*.cmd\nmodules.order\nModule.symvers\nstep\n.pinet\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "e1000e: as in Debian's kernel")
    for number in range(1, COMMITS + 1):
        commit(work, number)
    log = tmp_path / "gates.log"
    words = {name: shlex.quote(str(value)) for name, value in (("good", good), ("runs", tmp_path), ("log", log))}
    (work / "step").write_text(STEP.format(make=shlex.join(make), pinet=shlex.quote(str(PINET)), **words))
    (work / "step").chmod(0o755)
    git(work, "bisect", "start", "HEAD", f"HEAD~{COMMITS}")
    out = git(work, "bisect", "run", "./step")
    first = re.search(r"([0-9a-f]{40}) is the first bad commit", out)
    assert first is not None, out + log.read_text()
    assert git(work, "show", "-s", "--format=%s", first[1]).strip() == f"e1000e: step {SLOW}"
    gates = log.read_text()
    # Six commits of 64 are booted, and the known-good build before the first.
    assert 6 <= gates.count("run folder: ") <= 7
    assert "e1000_receive_skb [e1000e] 30.00 ->" in " ".join(gates.split())
