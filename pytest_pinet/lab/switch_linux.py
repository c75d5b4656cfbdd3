"""A Linux machine as a switch, by commands over ssh: one bridge for each group of ports.

A bridge per group works on every kernel; VLAN filtering would be lighter where the kernel has it. Every setting is read
back, and a port goes back to the bridge in which it was found.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import partial

from pytest_pinet.errors import ConfigError, SwitchError
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.ssh_connection import SshConnection
from pytest_pinet.lab.switchport import PortState
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.lab import Switch

GROUP_PREFIX = "pg"
READ_BACK_TIMEOUT_S = 5.0
_STATE = (
    "cd /sys/class/net/{port} 2>/dev/null || exit 44;"
    ' printf "%s|" "$(cat flags)" "$(cat carrier 2>/dev/null)" "$(cat speed 2>/dev/null)" "$(cat duplex 2>/dev/null)";'
    ' m=$(readlink master) && basename "$m"'
)
_NO_SUCH_PORT = 44
_IFF_UP = 1


class LinuxSwitch:
    """``default_group`` is the bridge to which a port returns when it was found in a group that we made ourselves."""

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
        flags, carrier, speed, duplex, group = self._run(f"show {port}", _STATE.format(port=port)).split("|")
        up = bool(int(flags, 16) & _IFF_UP)
        speed_mbps = int(speed) if speed.strip().lstrip("-").isdigit() else -1
        return PortState(
            admin_up=up,
            carrier=carrier.strip() == "1" if up else None,
            speed_mbps=speed_mbps if speed_mbps > 0 else None,
            duplex=duplex.strip() or None,
            group=group.strip() or None,
        )

    def wire(self, ports: frozenset[str], undo: UndoStack) -> None:
        wanted = sorted(ports)
        unknown = sorted(ports - set(self._switch.ports))
        if unknown:
            raise SwitchError(f"port {unknown[0]} of switch {self._switch.name} is not in the lab file: left alone")
        group = f"{GROUP_PREFIX}{zlib.crc32('/'.join(wanted).encode()):08x}"
        before = {port: self.state(port) for port in wanted}
        undo.add(
            f"group {group} on switch {self._switch.name}",
            lambda: self._run(f"remove {group}", f"if [ -e /sys/class/net/{group} ]; then ip link del {group}; fi"),
        )
        for port, state in before.items():
            undo.add(f"port {port} of switch {self._switch.name}", partial(self._restore, port, state))
        self._run(
            f"wire {' and '.join(wanted)}",
            f"{{ [ -e /sys/class/net/{group} ] || ip link add {group} type bridge; }} && ip link set {group} up"
            + "".join(f" && ip link set {port} master {group} up" for port in wanted),
        )
        deadline = Deadline(READ_BACK_TIMEOUT_S)
        for port in wanted:
            last = before[port]

            def applied(port: str = port) -> bool:
                nonlocal last
                last = self.state(port)
                return last.group == group and last.admin_up is True

            if not deadline.wait_until(applied):
                raise SwitchError(
                    f"switch {self._switch.name} took the wiring of port {port} but did not do it: "
                    f"it is in {last.group or 'no group'}, {last}",
                    "the lab's admin: look at the switch",
                )

    def _restore(self, port: str, state: PortState) -> None:
        group = state.group
        if group is not None and group.startswith(GROUP_PREFIX):
            # Left behind by a runner that was killed: its own group is no home.
            group = self._default_group
        where = f"master {group}" if group else "nomaster"
        self._run(f"restore {port}", f"ip link set {port} {where} {'up' if state.admin_up else 'down'}")

    def close(self) -> None:
        self._connection.close()


def connect(switch: Switch, settings: Mapping[str, str]) -> LinuxSwitch:
    """Settings: ``address`` (``ssh://user@host:port``), ``keyfile``, ``default_group`` (default ``br0``)."""
    address = settings.get("address")
    if not address:
        raise ConfigError(f"switch {switch.name!r} with backend 'linux' needs an `address:`", switch.where)
    connection = SshConnection(f"switch {switch.name}", address, settings.get("keyfile"))
    return LinuxSwitch(switch, connection, settings.get("default_group", "br0"))
