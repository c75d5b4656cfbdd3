"""Without root: a user namespace carries the virtual lab of ``pinet demo``."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

UID = 20001
_SUBORDINATE = "200000:65536"


def as_ordinary_user(argv: Sequence[str], folder: Path, environment: Mapping[str, str], ids: bool = True) -> list[str]:
    """Return the words that run a command as an ordinary user, whose home is ``folder``. They need root.

    The user is known only in a mount namespace of the command. Root's closed folders on the way to this Python are
    open for it there. Without ``ids`` the user has no subordinate ids.
    """
    files = folder / "etc"
    files.mkdir(parents=True)
    users = Path("/etc/passwd").read_text()
    (files / "passwd").write_text(f"{users}pinet-user:x:{UID}:{UID}::{folder}:/bin/sh\n")
    (files / "subordinate").write_text(f"pinet-user:{_SUBORDINATE}\n" if ids else "")
    folder.chmod(0o777)
    lines = [f"mount --bind {files}/passwd /etc/passwd"]
    lines += [f"mount --bind {files}/subordinate {name}" for name in ("/etc/subuid", "/etc/subgid")]
    lines += _opened(Path(sys.base_prefix), folder / "python")
    lines.append(f"cd {folder}")
    words = {"HOME": str(folder), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", **environment}
    wanted = [*("env", "-i"), *(f"{name}={value}" for name, value in words.items()), *argv]
    user = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
    lines.append(f"exec {shlex.join([*user, *wanted])}")
    return ["unshare", "--mount", "sh", "-euc", "\n".join(lines)]


def _opened(python: Path, spare: Path) -> list[str]:
    """Return the lines that replace the first closed folder above ``python`` by one that holds only ``python``."""
    closed = next((one for one in reversed(python.parents) if not one.stat().st_mode & 0o001), None)
    if closed is None:
        return []
    spare.mkdir()
    return [
        f"mount --bind {python} {spare}",
        f"mount -t tmpfs -o mode=755 tmpfs {closed}",
        f"mkdir -p {python}",
        f"mount --move {spare} {python}",
    ]


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")

ROOT = Path(__file__).parents[3]
CHECK = "from pytest_pinet.virtual.requirements import check_user_namespaces as check; check()"
PINET = "from pytest_pinet.cli import main; main()"


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the user can reach: pytest's own are closed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "home"


def run(home: Path, *words: str, ids: bool = True, seconds: float = 20) -> subprocess.CompletedProcess[str]:
    argv = as_ordinary_user([sys.executable, "-c", *words], home, {"PYTHONPATH": str(ROOT)}, ids)
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds)


def test_a_user_with_subordinate_ids_needs_no_root(home: Path) -> None:
    done = run(home, CHECK)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_user_without_subordinate_ids_is_told_so(home: Path) -> None:
    done = run(home, CHECK, ids=False)
    assert done.returncode == 1
    assert re.search(r"a user namespace cannot replace it here: unshare: .*/etc/subuid", done.stderr)


@pytest.mark.slow
def test_the_demo_runs_without_root_and_is_removed(home: Path) -> None:
    done = run(home, PINET, "demo", "--yes", "--scale", "0.1", seconds=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"1 measured: 1 (\w+)", done.stdout) == ["pass", "fail", "pass"]
    assert not Path(f"/tmp/pinet-{UID}").exists()
    assert (home / ".pinet" / "demo" / "report.html").stat().st_uid == UID
