"""A real sshd on loopback whose logins start the stand-in for a switch's command line."""

from __future__ import annotations

import fcntl
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from pytest_pinet.errors import Where
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.switch.cli import CliSwitch, connect
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.lab import Switch
from pytest_pinet.virtual.runtime import password_hash
from tests.support.sshd_settings import common_settings

PASSWORD = "raspberry rust"
_ROOT = Path(__file__).parents[2]
# netmiko appends terminal options to the user name for RouterOS. Real switches remove them.
_USERS = ("admin", "admin+ct511w4098h")
_SSHD = """\
ListenAddress 127.0.0.1
PasswordAuthentication yes
PubkeyAuthentication no
PermitRootLogin yes
PrintMotd no
PrintLastLog no
LoginGraceTime 20
ForceCommand {command}
"""
# Only this process sees these accounts; the machine does not change.
_START = """\
mount --make-rprivate / && mount --bind {folder}/passwd /etc/passwd && mount --bind {folder}/shadow /etc/shadow &&
mount -t tmpfs none /run && mkdir -m 755 /run/sshd &&
exec /usr/sbin/sshd -D -E {folder}/sshd.log -f {folder}/sshd_config
"""
PORTS = {
    "ios": [f"Gi1/0/{n}" for n in range(1, 7)],
    "routeros": [f"ether{n}" for n in (1, 2, 3, 10)],
}
FAMILY = {"ios": "cisco_ios", "routeros": "mikrotik_routeros"}


class SwitchBench:
    """A switch of one dialect. ``state`` is the state of its stand-in."""

    def __init__(self, dialect: str, folder: Path) -> None:
        self.dialect = dialect
        self.ports = PORTS[dialect]
        self._folder = folder
        self._state = folder / "state.json"
        self._state.touch()
        self.reset()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        password = password_hash(PASSWORD)
        users = "".join(f"{user}:x:0:0::/root:/bin/sh\n" for user in _USERS)
        (folder / "passwd").write_text(
            f"root:x:0:0::/root:/bin/sh\n{users}sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
        )
        (folder / "shadow").write_text(
            "root:*:19000::::::\nsshd:*:19000::::::\n" + "".join(f"{user}:{password}:19000::::::\n" for user in _USERS)
        )
        module = "tests.support.cli_switch_terminal"
        command = f"cd {_ROOT} && exec {sys.executable} -E -s -m {module} {dialect} {self._state}"
        config = common_settings(folder / "host_key", self.port) + _SSHD.format(command=command)
        (folder / "sshd_config").write_text(config)
        self._sshd = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _START.format(folder=folder)], stdin=subprocess.DEVNULL
        )
        if not Deadline(20).wait_until(self._listens):
            log = folder / "sshd.log"
            self.stop()
            raise RuntimeError(f"sshd did not start: {log.read_text() if log.exists() else 'no log'}")

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    @property
    def state(self) -> dict[str, Any]:
        with self._locked() as stream:
            state: dict[str, Any] = json.load(stream)
        return state

    @contextmanager
    def _locked(self) -> Iterator[IO[str]]:
        """Open the state with a lock, because the stand-in may still write at the end of a session."""
        with self._state.open("r+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield stream

    def _write(self, state: Mapping[str, Any]) -> None:
        with self._locked() as stream:
            stream.truncate()
            json.dump(state, stream)

    def reset(self, **changes: Any) -> None:
        """Reset to factory settings: all ports up, in VLAN 1."""
        ports = {
            port: {
                "name": f"pi {n}",
                "admin": True,
                "carrier": n != 3,
                "speed": 100 if n == 2 else 1000,
                "vlan": 1,
                "poe": True,
                "rx": 5_880_759_393 + n,
                "tx": 72_669_652 + n,
                "rx_discards": 0,
                "tx_discards": 7,
                "far": f"dc:a6:32:00:00:0{n}" if n < 3 else None,
            }
            for n, port in enumerate(self.ports, 1)
        }
        state = {
            "ports": ports,
            "vlans": [1, 10],
            "vtp": "off",
            "lldp": True,
            "filtering": True,
            "faults": {},
            "log": [],
        }
        self._write({**state, **changes})

    def change(self, **changes: Any) -> None:
        """Change the state. No command must be running."""
        self._write({**self.state, **changes})

    def switch(self, ports: list[str] | None = None, /, **settings: str) -> Switch:
        """Return the switch as a lab file would define it."""
        own = {
            "family": FAMILY[self.dialect],
            "address": f"ssh://admin@127.0.0.1:{self.port}",
            "password": PASSWORD,
            "timeout": "15 s",
            **settings,
        }
        return Switch("sw1", "cli", tuple(ports or self.ports), own, Where("lab.yaml", 12))

    def managed(self, switch: CliSwitch, group_vlans: range = Switch.group_vlans) -> ManagedSwitch:
        """Return the managed switch on top of a backend, with an empty journal."""
        journal = Journal("lab.yaml", Path(tempfile.mkdtemp(dir=self._folder)))
        return ManagedSwitch(replace(self.switch(), group_vlans=group_vlans), switch, journal)

    def connect(self, **settings: str) -> CliSwitch:
        """Log in through the backend."""
        switch = self.switch(None, **settings)
        return connect(switch, switch.settings)

    def stop(self) -> None:
        """Stop sshd."""
        self._sshd.terminate()
        self._sshd.wait(10)
