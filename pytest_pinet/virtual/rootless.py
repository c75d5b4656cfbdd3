"""Without root: run a command as the root of a user namespace, which may make the network namespaces of a virtual lab.

See user_namespaces(7), newuidmap(1) and unshare(1). The command sees the same files, but only a loopback of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import last_line

TRIAL_S = 20.0
# sshd and snmpd run parts of themselves as other users, so one mapped user is not enough.
_NEW = ("unshare", "--user", "--map-root-user", "--map-auto", "--net", "--mount", "--")
_UP = ("sh", "-c", 'PATH="$PATH:/usr/sbin:/sbin"; ip link set lo up && exec "$@"', "sh")
# What a node of the lab needs: a network namespace of its own, its own /proc and /sys, files of other users.
_TRIAL = "unshare --net --pid --fork --mount sh -c 'mount -t proc proc /proc && mount -t sysfs sysfs /sys' && setpriv \
--reuid 1 --clear-groups true"


def check_user_namespaces() -> None:
    """Try what a virtual lab needs in a user namespace. Raises LabError with what is missing."""
    if shutil.which("newuidmap") is None:
        raise _cannot("newuidmap is missing (Debian package uidmap)")
    try:
        done = subprocess.run(
            [*_NEW, *_UP, "sh", "-c", _TRIAL], check=False, capture_output=True, text=True, timeout=TRIAL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _cannot(str(error)) from None
    if done.returncode != 0:
        raise _cannot(last_line(done.stderr) or f"exit code {done.returncode}")


def replace_process(argv: Sequence[str]) -> None:
    """Replace this process by a command that is root in a new user namespace. Does not return."""
    words = [*_NEW, *_UP, *argv]
    os.execvp(words[0], words)


def _cannot(why: str) -> LabError:
    return LabError(
        "the virtual lab needs root for its network namespaces, but this user is not root and `sudo -n true` fails; a "
        f"user namespace cannot replace it here: {why}",
        "run as root, allow sudo without a password, or allow user namespaces (uidmap, a line in /etc/subuid)",
    )
