"""The console password. Each lab gets a new one, so that only users who can read the lab's directory can log in."""

from __future__ import annotations

import ctypes
import secrets

from pytest_pinet.errors import LabError

# Boards check the password with PAM. Its pam_unix uses the same library. Python 3.13 removed the crypt module.
LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")


def make() -> str:
    """Return 96 random bits in characters that are not special to a shell, template or terminal."""
    return secrets.token_hex(12)


def hash_of(password: str) -> str:
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
    raise LabError("the virtual lab needs libcrypt with SHA-512, which this machine lacks", "apt install libcrypt1")
