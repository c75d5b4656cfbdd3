"""The login of a board as users write it, and what to do if ssh cannot use it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.errors import SshError
from pytest_pinet.execution.shell import last_line
from pytest_pinet.model.forms import parse_address

FORM = "a login such as pi@192.0.2.5, pi@192.0.2.5:2222 or a host of ~/.ssh/config"
# The whole handshake has this time: it takes seconds on a Pi Zero or an emulated board.
CONNECT_S, HANDSHAKE_S = 10, 40.0
_RESOLVE_S = 10


@dataclass(frozen=True)
class Login:
    """``host`` as the user wrote it, such as a name of ~/.ssh/config; ``address`` is where ssh connects to."""

    user: str
    host: str
    port: int
    address: str

    @property
    def words(self) -> tuple[str, ...]:
        """The words of ssh for this destination."""
        port = () if self.port == 22 else ("-p", str(self.port))
        return (*port, f"{self.user}@{self.host}")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port != 22 else self.host
        return f"{self.user}@{host}" + ("" if self.port == 22 else f":{self.port}")


def parse(text: str) -> Login:
    """Parse a login. ssh's own settings give what it lacks, such as the user. Raises ValueError with a sentence."""
    found = parse_address(text, "ssh", FORM)
    host = found.host
    argv = ["ssh", "-G", *(("-p", str(found.port)) if found.port else ())]
    argv += [*(("-l", found.user) if found.user else ()), host]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_RESOLVE_S, check=False)
    except FileNotFoundError:
        raise ValueError("this machine has no ssh: sudo apt-get install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"`ssh -G {host}` did not answer within {_RESOLVE_S} s; check ~/.ssh/config") from None
    if done.returncode:
        why = last_line(done.stderr) or f"exit status {done.returncode}"
        raise ValueError(f"ssh does not accept its own settings for {host}: {why}")
    values = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    return Login(values["user"], host, int(values["port"]), values.get("hostname", host))


def options(keyfile: str | None) -> list[str]:
    """Return the options of ssh for a connection that asks nothing and uses the user's own settings."""
    words = ["-x", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
    return [*words, "-i", keyfile] if keyfile else words


@dataclass(frozen=True)
class _SshCause:
    """``pattern`` is a text of OpenSSH; ``message`` and ``act`` may contain {login}, {host}, {command} and {port}."""

    pattern: str
    message: str
    act: str


_CAUSES: Sequence[_SshCause] = (
    _SshCause(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "the host key of {host} is not the key that this machine knows: another board or another card answers there",
        "if this is right: ssh-keygen -R {known}; then: {command}",
    ),
    _SshCause(
        r"Host key verification failed",
        "this machine does not know the host key of {host}",
        "log in once and accept the key: {command}",
    ),
    _SshCause(
        r"until a valid user has been set up",
        "{host} is a new Raspberry Pi OS without a user: ssh cannot work yet",
        "create the user with screen and keyboard, or write the card again with a user in Raspberry Pi Imager",
    ),
    _SshCause(
        r"Permission denied|Too many authentication failures|No supported authentication methods",
        "{host} refused {login}: wrong user, or it does not have the key of this machine",
        "{copy} (it asks for the password once), or name the user and --keyfile FILE",
    ),
    _SshCause(
        r"Could not resolve hostname",
        "{host} is no host that this machine knows",
        "use the board's IP address: `hostname -I` on the board, or the list of devices in your router",
    ),
    _SshCause(
        r"Connection refused",
        "{host} answers, but no ssh server listens on its port {port}",
        "on the board: sudo raspi-config nonint do_ssh 0 (Raspberry Pi OS), or: sudo systemctl enable --now ssh",
    ),
    _SshCause(
        r"timed out|No route to host|Network is unreachable|Host is down|did not answer|no answer within",
        "no answer from {host}",
        "check that the board has power and a cable, and its address in the list of devices of your router",
    ),
)


def explain(login: Login, keyfile: str | None, why: str) -> SshError:
    """Return the error for a connection that ssh could not open. ``why`` is what ssh printed."""
    key = f"-i {keyfile} " if keyfile else ""
    where = f"[{login.host}]:{login.port}" if login.port != 22 else login.host
    facts = {
        "login": str(login),
        "host": login.host,
        "port": str(login.port),
        "known": f"'{where}'" if "[" in where else where,
        "command": f"ssh {key}{' '.join(login.words)}",
        "copy": f"ssh-copy-id {key}{' '.join(login.words)}",
    }
    for cause in _CAUSES:
        if re.search(cause.pattern, why, re.IGNORECASE):
            return SshError(cause.message.format(**facts), cause.act.format(**facts))
    last = last_line(why) or "no reason given"
    return SshError(f"no ssh connection to {login}: {last}", f"make this command work: {facts['command']}")
