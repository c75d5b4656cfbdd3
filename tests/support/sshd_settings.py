"""Settings of a real sshd that a test starts in namespaces of its own: one key is that of the host and of its user."""

from __future__ import annotations

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
