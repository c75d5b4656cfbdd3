"""An ordinary user of this machine, with subordinate ids, without a change of the machine's files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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
