"""A real sshd that a test starts in namespaces of its own: one key is that of the host and of its user."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SETTINGS = """\
ListenAddress {address}
Port {port}
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
UseDNS no
KexAlgorithms curve25519-sha256
PermitRootLogin prohibit-password
"""


def sshd_settings(folder: Path, address: str, port: int) -> str:
    """Make the key ``folder/key``, and return the settings of an sshd whose root logs in with it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True, timeout=20)
    return _SETTINGS.format(address=address, port=port, folder=folder)


def start_board(init: str, folder: Path, variable: str) -> subprocess.Popen[bytes]:
    """Start the shell script ``init`` in namespaces of its own. ``$variable`` is the folder of the board."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-c", init],
            env={variable: str(folder), "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
