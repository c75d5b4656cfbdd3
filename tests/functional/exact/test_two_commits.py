"""``pinet gate --exact --tree``: two commits of Debian's kernel, with the small configuration for one driver."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_pinet.exact.qemu import PROGRAM
from tests.support.driver_builds import PATCHES
from tests.support.gate_project import PINET
from tests.support.kernel_source import NEEDED, run, unpacked_source

MISSING = [name for name in (PROGRAM, "git", *NEEDED) if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(bool(MISSING), reason=f"a kernel is built and booted here with {', '.join(MISSING)}"),
]
TIMEOUT_S = 3000.0


def git(folder: Path, *words: str | Path) -> None:
    run("git", "-C", folder, "-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "gc.auto=0", *words)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with three commits: Debian's kernel, a document, and four instructions more in r8152."""
    source = unpacked_source(tmp_path)
    git(source, "init", "--quiet", "--initial-branch=main")
    git(source, "add", "--all", "--force", ".")
    git(source, "commit", "--quiet", "--message=Debian's kernel")
    git(source, "tag", "base")
    (source / "Documentation/index.rst").write_text("text\n")
    git(source, "commit", "--quiet", "--all", "--message=docs: shorter")
    git(source, "tag", "docs")
    run("patch", "-p1", "--fuzz=0", "-d", source, "-i", PATCHES / "four-instructions-r8152-rx.patch")
    git(source, "commit", "--quiet", "--all", "--message=r8152: count")
    return source


def test_a_longer_function_between_two_commits_is_named_with_its_line(
    repository: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    def gate(*words: str) -> str:
        done = subprocess.run(
            [PINET, "gate", "--exact", "--nic=r8152", f"--tree={repository}", *words, "-p", "no:cacheprovider"],
            cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    out = gate("--good=base")
    changed = re.search(r"^r8152_poll \[r8152\] .* \+4\.00\n *(drivers/net/usb/r8152\.c):(\d+)$", out, re.MULTILINE)
    assert changed is not None, out
    assert "r8152_poll" in (repository / changed[1]).read_text().splitlines()[int(changed[2]) - 1]
    # Equal sources give equal bytes, so the boots of the first commit count for the second one.
    assert re.search(r"^\d+ unchanged; 0 boots$", gate("--good=base", "--bad=docs"), re.MULTILINE)
