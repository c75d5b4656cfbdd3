"""What a machine needs to carry a virtual lab."""

from __future__ import annotations

import os
import shutil
import subprocess

from pytest_pinet.errors import LabError

# Command -> Debian package.
PACKAGES = {
    "agetty": "util-linux",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "lldpd": "lldpd",
    "login": "login",
    "mount": "mount",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "setsid": "util-linux",
    "snmpd": "snmpd",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "tc": "iproute2",
    "unshare": "util-linux",
}
# A user's PATH often lacks the directories for administrators.
_SEARCH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def check_commands() -> None:
    """Raises LabError that names the packages of all commands that are missing."""
    missing = [command for command in PACKAGES if shutil.which(command, path=_SEARCH) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES[command] for command in missing}))
        raise LabError(
            f"the virtual lab needs {', '.join(missing)}, which this machine lacks", f"apt install {packages}"
        )


def as_root() -> list[str]:
    """The words that make a command run as root; none for root. Raises LabError where there is no way."""
    if os.geteuid() == 0:
        return []
    try:
        allowed = subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        allowed = False
    if not allowed:
        raise LabError(
            "the virtual lab needs root for its network namespaces, and neither are you root "
            "nor does `sudo -n true` work without a password",
            "run as root, or allow sudo without a password for this user",
        )
    return ["sudo", "-n", "--"]
