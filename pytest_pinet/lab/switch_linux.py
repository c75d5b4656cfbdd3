"""A Linux machine as a switch, by commands over ssh: one bridge for each group of ports.

A bridge per group works on every kernel; VLAN filtering would be lighter where the kernel has it. Every setting is read
back, and a port goes back to the bridge in which it was found.
"""

from __future__ import annotations

import shlex
import zlib
from collections.abc import Mapping, Sequence

from pytest_pinet.errors import ConfigError, SwitchError
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.ssh_connection import SshConnection
from pytest_pinet.lab.switchport import PortState
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.lab import Switch
from pytest_pinet.shell import as_root

GROUP_PREFIX = "pg"
READ_BACK_TIMEOUT_S = 5.0
# One line: flags|carrier|speed|duplex|bridge
_STATE = (
    "cd /sys/class/net/{port} 2>/dev/null || exit 44;"
    ' printf "%s|" "$(cat flags)" "$(cat carrier 2>/dev/null)" "$(cat speed 2>/dev/null)" "$(cat duplex 2>/dev/null)";'
    ' basename "$(readlink master)"'
)
_NO_SUCH_PORT = 44
_IFF_UP = 1


class LinuxSwitch:
    """``default_group`` is the bridge to which a port returns when it was found in a group that we made ourselves."""

    rewires = True

    def __init__(self, switch: Switch, connection: SshConnection, default_group: str) -> None:
        self._switch = switch
        self._connection = connection
        self._default_group = default_group

    def _run(self, what: str, command: str) -> str:
        done = self._connection.shell.run(command, timeout_s=10.0)
        if done.returncode == _NO_SUCH_PORT:
            raise SwitchError(
                f"switch {self._switch.name} has no port of the name asked for ({what})",
                f"correct the ports of {self._switch.name} in {self._switch.where}",
            )
        if done.returncode != 0:
            raise SwitchError(
                f"switch {self._switch.name} refused to {what}: {done.stderr.strip() or f'exit {done.returncode}'}",
                "the lab's admin: look at the switch",
            )
        return done.stdout

    def state(self, port: str) -> PortState:
        return self._states([port])[port]

    def _states(self, ports: Sequence[str]) -> dict[str, PortState]:
        """One command for all, since each is a round trip."""
        command = " && ".join(f"( {_STATE.format(port=shlex.quote(port))} )" for port in ports)
        lines = self._run(f"show {' and '.join(ports)}", command).splitlines()
        return {port: _parse(line) for port, line in zip(ports, lines, strict=True)}

    def wire(self, ports: frozenset[str], undo: UndoStack) -> None:
        wanted = sorted(ports)
        unknown = sorted(ports - set(self._switch.ports))
        if unknown:
            raise SwitchError(f"port {unknown[0]} of switch {self._switch.name} is not in the lab file: left alone")
        group = f"{GROUP_PREFIX}{zlib.crc32('/'.join(wanted).encode()):08x}"
        names = " and ".join(wanted)
        before = self._states(wanted)
        undo.add(f"the wiring of {names} on switch {self._switch.name}", lambda: self._restore(group, before))
        self._run(
            f"wire {names}",
            as_root(
                f"{{ [ -e /sys/class/net/{group} ] || ip link add {group} type bridge; }} && ip link set {group} up"
                + "".join(f" && ip link set {shlex.quote(port)} master {group} up" for port in wanted)
            ),
        )
        last = before

        def applied() -> bool:
            nonlocal last
            last = self._states(wanted)
            return all(state.group == group and state.admin_up is True for state in last.values())

        if not Deadline(READ_BACK_TIMEOUT_S).wait_until(applied):
            found = ", ".join(f"{port} is in {state.group or 'no group'} and {state}" for port, state in last.items())
            raise SwitchError(
                f"switch {self._switch.name} took the wiring of {names} but did not do it: {found}",
                "the lab's admin: look at the switch",
            )

    def _restore(self, group: str, before: Mapping[str, PortState]) -> None:
        commands = []
        for port, state in before.items():
            home = state.group
            if home is not None and home.startswith(GROUP_PREFIX):
                # Left behind by a runner that was killed: its own group is no home.
                home = self._default_group
            where = f"master {home}" if home else "nomaster"
            commands.append(f"ip link set {shlex.quote(port)} {where} {'up' if state.admin_up else 'down'}")
        commands.append(f"if [ -e /sys/class/net/{group} ]; then ip link del {group}; fi")
        # ";", since every port is to go home even when one refuses; "r" remembers that one did.
        script = "r=0; " + " ".join(f"{command} || r=$?;" for command in commands) + " exit $r"
        self._run(f"restore {' and '.join(before)}", as_root(script))

    def close(self) -> None:
        self._connection.close()


def _parse(line: str) -> PortState:
    flags, carrier, speed, duplex, group = line.split("|")
    up = bool(int(flags, 16) & _IFF_UP)
    speed_mbps = int(speed) if speed.lstrip("-").isdigit() else -1
    return PortState(
        admin_up=up,
        carrier=carrier == "1" if up else None,
        speed_mbps=speed_mbps if speed_mbps > 0 else None,
        duplex=duplex or None,
        group=group or None,
    )


def connect(switch: Switch, settings: Mapping[str, str]) -> LinuxSwitch:
    """Settings: ``address`` (``ssh://user@host:port``), ``keyfile``, ``default_group`` (default ``br0``)."""
    address = settings.get("address")
    if not address:
        raise ConfigError(f"switch {switch.name!r} with backend 'linux' needs an `address:`", switch.where)
    connection = SshConnection(f"switch {switch.name}", address, settings.get("keyfile"))
    return LinuxSwitch(switch, connection, settings.get("default_group", "br0"))
