"""The secrets of a lab. Each lab gets new ones, so that only users who can read its directory can log in."""

from __future__ import annotations

import ctypes
import secrets
import subprocess
from pathlib import Path

from pytest_pinet.errors import LabError

# Boards check the password with PAM. Its pam_unix uses the same library. Python 3.13 removed the crypt module.
LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")


def make_password() -> str:
    """Return 96 random bits in characters that are not special to a shell, template or terminal."""
    return secrets.token_hex(12)


def password_hash(password: str) -> str:
    """Return the password's hash for ``/etc/shadow``. Raises LabError if libcrypt is missing."""
    for name in LIBRARIES:
        try:
            crypt = ctypes.CDLL(name).crypt
        except OSError:
            continue
        crypt.argtypes, crypt.restype = [ctypes.c_char_p, ctypes.c_char_p], ctypes.c_char_p
        # Few rounds are enough: 96 random bits cannot be guessed, and more rounds would slow down every login.
        found = crypt(password.encode(), f"$6$rounds=1000${secrets.token_hex(8)}$".encode())
        if found is not None and found.startswith(b"$6$"):
            return str(found.decode())
    raise LabError("the virtual lab needs libcrypt with SHA-512, which is missing", "apt install libcrypt1")


def make_ssh_keys(directory: Path) -> None:
    """Create the key pair of the user and the key pair of the boards' sshd."""
    directory.mkdir(exist_ok=True)
    for name in ("id_ed25519", "host_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "pinet-virtual-lab", "-f", str(directory / name)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
