"""The password of the consoles: made anew for each lab, so that only who may read the lab's directory gets in."""

from __future__ import annotations

import ctypes
import secrets

from pytest_pinet.errors import LabError

# The boards check it with PAM, whose pam_unix needs the same library; Python has had no crypt module since 3.13.
LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2")


def make() -> str:
    """96 random bits that no shell, template or terminal takes for anything else."""
    return secrets.token_hex(12)


def hash_of(password: str) -> str:
    """What stands in ``/etc/shadow``. Raises LabError where the C library for it is missing."""
    for name in LIBRARIES:
        try:
            crypt = ctypes.CDLL(name).crypt
        except OSError:
            continue
        crypt.argtypes, crypt.restype = [ctypes.c_char_p, ctypes.c_char_p], ctypes.c_char_p
        # Few rounds: nobody guesses 96 bits, and every login waits for them.
        found = crypt(password.encode(), f"$6$rounds=1000${secrets.token_hex(8)}$".encode())
        if found is not None and found.startswith(b"$6$"):
            return str(found.decode())
    raise LabError("the virtual lab needs libcrypt with SHA-512, which this machine lacks", "apt install libcrypt1")
