"""Accounts and logins of virtual and emulated boards, for users and labgrid: ssh, console login, shell."""

from __future__ import annotations

_PASSWD = (
    "root:x:0:0:root:/root:/bin/bash",
    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
    "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin",
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
)
_GROUPS = "root:x:0:\ndaemon:x:1:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nutmp:x:43:\nnogroup:x:65534:\n"
_PAM_LOGIN = """\
auth required pam_unix.so nullok nodelay
account required pam_permit.so
password required pam_permit.so
session required pam_permit.so
"""


def login_files(system: str, path: str, account: str = "", group: str = "") -> dict[str, str]:
    """Return the files of accounts, console login and shell by path, without the password.

    ``system`` is the name that the login prompt shows, ``path`` the PATH of all shells. ``account`` and ``group`` are
    lines of one more user.
    """
    return {
        "etc/passwd": "".join(f"{line}\n" for line in _PASSWD) + account,
        "etc/group": _GROUPS + group,
        "etc/issue": f"{system} \\n\n\n",
        "etc/motd": "",
        "etc/environment": "",
        "etc/default/locale": "",
        "etc/pam.d/login": _PAM_LOGIN,
        # No timeout, since login would print a message each minute on the console.
        "etc/login.defs": f"LOGIN_TIMEOUT 0\nLOGIN_RETRIES 5\nENV_SUPATH PATH={path}\nENV_PATH PATH={path}\n"
        "HUSHLOGIN_FILE .hushlogin\n",
        # Bracketed paste would print escape sequences before the prompt that labgrid's ShellDriver waits for.
        "root/.inputrc": "set enable-bracketed-paste off\nset bell-style none\n",
        "root/.bashrc": "PS1='\\u@\\h:\\w# '\nunset PROMPT_COMMAND HISTFILE\n",
        "root/.bash_profile": f"PATH={path}\nexport PATH\nmesg n 2>/dev/null\n. /root/.bashrc\n",
        "root/.hushlogin": "",
    }


def shadow(password_hash: str) -> str:
    """Return ``/etc/shadow`` with root's password."""
    locked = "".join(f"{name}:*:19000::::::\n" for name in ("daemon", "sshd", "nobody"))
    return f"root:{password_hash}:19000:0:99999:7:::\n{locked}"


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
