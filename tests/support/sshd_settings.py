"""Settings of the real sshds that tests start in namespaces, and boards whose only service is such an sshd."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

# What each of them has: it needs no configuration of this machine, and asks no other machine.
_COMMON = """\
Port {port}
HostKey {host_key}
PidFile none
StrictModes no
UsePAM no
UseDNS no
"""
_ROOT = """\
ListenAddress {address}
AuthorizedKeysFile {folder}/key.pub
KexAlgorithms curve25519-sha256
PermitRootLogin prohibit-password
"""


def common_settings(host_key: Path, port: int) -> str:
    """Make the key of the host, and return the settings that every sshd of the tests has."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", host_key], check=True, timeout=20)
    return _COMMON.format(port=port, host_key=host_key)


def sshd_settings(folder: Path, address: str, port: int) -> str:
    """Make the key ``folder/key``, and return the settings of an sshd whose root logs in with it."""
    return common_settings(folder / "key", port) + _ROOT.format(address=address, folder=folder)


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
