"""``pinet bisect`` over 32 commits of Debian's kernel: one makes r8152 slower, three do not compile. Killed once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.gate_project import PINET
from tests.support.kernel_source import NEEDED, unpacked_source

pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(
        not all(map(shutil.which, ("qemu-system-aarch64", *NEEDED))), reason="QEMU or a program of the build is missing"
    ),
]
COMMITS, SLOW = 32, 19
# Each is repaired by the next commit.
BROKEN = (8, 16, 25)
DRIVER = "drivers/net/usb/r8152.c"
# The first line of the function that each received packet passes.
PLACE = "\tu8 checksum = CHECKSUM_NONE;\n\tu32 opts2, opts3;\n"
LONGER = '\tint pass;\n\n\tfor (pass = 0; pass < 20; pass++)\n\t\tasm volatile("nop");\n'
# Files of other commits: the text is put at the end, as a comment of the language.
OTHERS = (
    ("drivers/net/ethernet/broadcom/genet/bcmgenet.c", "/* series: {} */\n"),
    ("drivers/net/usb/Kconfig", "# series: {}\n"),
    (DRIVER, "/* series: {} */\n"),
    ("net/ipv4/tcp.c", "/* series: {} */\n"),
    ("Documentation/networking/netdevices.rst", "\n.. series: {}\n"),
)
ERROR = "#error series\n"
TIMEOUT_S = 3600.0


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=A. Developer", "-c", "user.email=dev@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def make_series(source: Path) -> None:
    """Make the commits on top of HEAD, which gets the tag ``good``."""
    git(source, "tag", "good")
    for number in range(1, COMMITS + 1):
        name, text = OTHERS[number % len(OTHERS)]
        path, driver = source / name, source / DRIVER
        path.write_text(path.read_text() + text.format(number))
        code = driver.read_text().replace(ERROR, "")
        if number == SLOW:
            code = code.replace(PLACE, PLACE + LONGER, 1)
        driver.write_text(code + (ERROR if number in BROKEN else ""))
        git(source, "commit", "--quiet", "--all", "--message", f"series: step {number}")


def test_a_slow_commit_of_32_is_found_though_the_search_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = unpacked_source(tmp_path)
    git(source, "init", "--quiet")
    git(source, "add", "--all", "--force")
    git(source, "commit", "--quiet", "--message", "as in Debian's kernel")
    make_series(source)
    log = tmp_path / "log"
    # The newest kernel's package stays where it is; trees and boots are new.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    argv = [str(PINET), "bisect", f"--tree={source}", "--good=good", "--exact", "--nic=r8152", "--instructions=20"]
    with log.open("w") as file:
        killed = subprocess.Popen(argv, stdout=file, stderr=file, cwd=tmp_path)
        deadline = time.monotonic() + TIMEOUT_S
        while "\nstep 4: " not in log.read_text():
            assert killed.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(1)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gating the bad commit" not in done.stderr
    assert "\nstep 4: " in f"\n{done.stderr}"
    assert done.stdout.startswith(f"found: {git(source, 'rev-parse', f'main~{COMMITS - SLOW}')} series: step {SLOW}\n")
    assert "author: A. Developer <dev@example.com>" in done.stdout
    # The compiler puts the function into its caller.
    assert "r8152_poll [r8152]" in done.stdout
