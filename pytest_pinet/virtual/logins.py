"""Accounts and logins of virtual and emulated boards, for users and labgrid: ssh, console login, shell."""

from __future__ import annotations

_PASSWD = (
    "root:x:0:0:root:/root:/bin/bash",
    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
    "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin",
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
)
_GROUPS = ("root:x:0:", "daemon:x:1:", "adm:x:4:", "tty:x:5:", "disk:x:6:", "utmp:x:43:", "nogroup:x:65534:")
_LOCKED = ("daemon", "sshd", "nobody")
PAM_LOGIN = """\
auth required pam_unix.so nullok nodelay
account required pam_permit.so
password required pam_permit.so
session required pam_permit.so
"""
# Bracketed paste would print escape sequences before the prompt that labgrid's ShellDriver waits for.
INPUTRC = "set enable-bracketed-paste off\nset bell-style none\n"
BASHRC = "PS1='\\u@\\h:\\w# '\nunset PROMPT_COMMAND HISTFILE\n"


def passwd(more: str = "") -> str:
    """Return ``/etc/passwd``, with ``more`` lines at the end."""
    return "\n".join(_PASSWD) + f"\n{more}"


def groups(more: str = "") -> str:
    """Return ``/etc/group``, with ``more`` lines at the end."""
    return "\n".join(_GROUPS) + f"\n{more}"


def shadow(password_hash: str) -> str:
    """Return ``/etc/shadow`` with root's password."""
    locked = "".join(f"{name}:*:19000::::::\n" for name in _LOCKED)
    return f"root:{password_hash}:19000:0:99999:7:::\n{locked}"


def profile(path: str) -> str:
    """Return bash's login profile. ``path`` is its PATH."""
    return f"PATH={path}\nexport PATH\nmesg n 2>/dev/null\n. /root/.bashrc\n"


def login_defs(path: str) -> str:
    """Return login.defs. It disables login's timeout, since login would print a message each minute on the console."""
    return f"""\
LOGIN_TIMEOUT 0
LOGIN_RETRIES 5
ENV_SUPATH PATH={path}
ENV_PATH PATH={path}
HUSHLOGIN_FILE .hushlogin
"""


def sshd_config(path: str, address: str, grace_s: int) -> str:
    """Return the configuration of sshd, with key logins only, at this address.

    OpenSSH's default key exchange (sntrup761) takes 0.1 s of processor time per connection. A lab inside one machine
    does not need it.
    """
    return f"""\
Port 22
ListenAddress {address}
HostKey /run/pinet/host_key
AuthorizedKeysFile /run/pinet/authorized_keys
PidFile none
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
MaxStartups 200
MaxSessions 200
LoginGraceTime {grace_s}
KexAlgorithms curve25519-sha256
SetEnv PATH={path}
Subsystem sftp internal-sftp
"""
