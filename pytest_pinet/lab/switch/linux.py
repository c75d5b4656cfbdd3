"""A Linux machine as a switch (a bridge, DSA, OpenWrt), with commands over ssh: one command for all ports of a call.

If the bridge of a port filters VLANs, the port's VLAN is changed in that bridge. Else each VLAN is a separate bridge,
``br<vlan>``, which every kernel supports. One switch can have ports of both kinds.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pytest_pinet.errors import SwitchError
from pytest_pinet.execution.names import quoted
from pytest_pinet.execution.shell import Shell, as_root, last_line
from pytest_pinet.lab.ssh import SshConnection, ssh_words
from pytest_pinet.lab.switch.switchport import (
    About,
    Capability,
    Neighbour,
    PortCounters,
    PortState,
    linux_kind,
    neighbours_by_port,
)
from pytest_pinet.model.lab import Switch

_NO_SUCH_PORT = 44
_NOT_FOUND = 127
_IFF_UP = 1
_PATH = "PATH=$PATH:/usr/sbin:/sbin; "
# Only shell built-ins: a process for each value would take longer than the ssh round trip.
_READ = (
    'get() { { IFS= read -r value <"$1"; } 2>/dev/null || value=; }; '
    f'known() {{ [ -e "/sys/class/net/$1" ] || {{ echo "$1" >&2; exit {_NO_SUCH_PORT}; }}; cd "/sys/class/net/$1"; }}; '
)
# One line for each port: flags|carrier|speed|duplex|bridge|whether that bridge filters VLANs. Then the VLAN table.
_STATES = (
    "any=; for port in {ports}; do known $port; line=;"
    ' for file in flags carrier speed duplex; do get $file; line="$line$value|"; done;'
    " master=; value=; if cd -P master 2>/dev/null; then master=${{PWD##*/}}; get bridge/vlan_filtering; fi;"
    ' [ "$value" != 1 ] || any=1; echo "$line$master|$value"; done; [ -z "$any" ] || bridge -j vlan show'
)
# move PORT VLAN BRIDGE: VLAN 0 means no VLAN. Without filtering, a VLAN is a separate bridge.
_MOVE = (
    'filters() {{ get /sys/class/net/$1/bridge/vlan_filtering; [ "$value" = 1 ]; }}; '
    "untagged() {{ bridge vlan show dev $1 |"
    " sed -n 's/^.*[[:space:]]\\([0-9][0-9]*\\)[[:space:]].*Untagged.*$/\\1/p'; }}; "
    "move() {{ master=$(readlink /sys/class/net/$1/master); master=${{master##*/}}; "
    'if [ "$2" = 0 ]; then ip link set $1 nomaster; return; fi; '
    'if [ -z "$master" ] && filters {default}; then ip link set $1 master {default} || return; master={default}; fi; '
    'if [ -n "$master" ] && filters $master; then '
    "old=$(untagged $1); bridge vlan add dev $1 vid $2 pvid untagged || return; "
    "for vlan in $old; do [ $vlan = $2 ] || bridge vlan del dev $1 vid $vlan || return; done; return; fi; "
    "if [ ! -e /sys/class/net/$3 ]; then ip link add $3 type bridge || return; "
    # The bridge only connects ports; the host must not send on it.
    "echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/$3/disable_ipv6 || :; fi; "
    "ip link set $3 up && ip link set $1 master $3; }}; "
)
_COUNTERS = ("rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")


@dataclass(frozen=True)
class Bridges:
    """The bridges that stand for VLANs without filtering: ``br<vlan>``, and a named bridge for the default VLAN."""

    default_vlan: int
    default_bridge: str

    def name(self, vlan: int) -> str:
        return self.default_bridge if vlan == self.default_vlan else f"br{vlan}"

    def vlan(self, bridge: str) -> int | None:
        """Return the VLAN of a bridge; 0 for no bridge, None for a bridge whose name is no VLAN."""
        if not bridge:
            return 0
        if bridge == self.default_bridge:
            return self.default_vlan
        number = bridge.removeprefix("br")
        if bridge == number or not number.isdecimal() or number.startswith("0") or int(number) == self.default_vlan:
            return None
        return int(number)


class LinuxSwitch:
    """A Linux machine as a switch. ``close`` ends the ssh connection."""

    def __init__(self, switch: Switch, shell: Shell, bridges: Bridges, connection: SshConnection | None = None) -> None:
        self._switch = switch
        self._shell = shell
        self._bridges = bridges
        self._connection = connection

    @property
    def about(self) -> About:
        return linux_kind()

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        command = "command -v bridge >/dev/null && echo fdb; lldpcli show configuration >/dev/null 2>&1 && echo lldp; :"
        found = {Capability(word) for word in self._run("list its commands", as_root(command)).split()}
        return frozenset({Capability.LINK, Capability.ADMIN, Capability.VLAN, Capability.COUNTERS} | found)

    def _run(self, what: str, command: str) -> str:
        done = self._shell.run(command, timeout_s=10.0)
        error = last_line(done.stderr)
        if done.returncode == _NO_SUCH_PORT:
            raise SwitchError(
                f"switch {self._switch.name} has no port {error or '?'!r}",
                f"correct the ports of {self._switch.name} in {self._switch.where}",
            )
        if done.returncode != 0:
            lacks = "; a command is not installed" if done.returncode == _NOT_FOUND else ""
            raise SwitchError(
                f"switch {self._switch.name} failed to {what}: {error or f'exit status {done.returncode}'}{lacks}",
                "the lab's admin: check that this user may run ip and bridge on the switch",
            )
        return done.stdout

    def states(self, ports: Iterable[str]) -> Mapping[str, PortState]:
        wanted = [*ports]
        names = " ".join(map(shlex.quote, wanted))
        out = self._run(f"read the state of {' and '.join(wanted)}", _PATH + _READ + _STATES.format(ports=names))
        lines = out.splitlines()
        with self._readable("states of its ports", out):
            vlans = untagged_vlans("\n".join(lines[len(wanted) :]))
            return {port: self._state(line, vlans.get(port)) for port, line in zip(wanted, lines, strict=False)}

    @contextmanager
    def _readable(self, what: str, answer: str) -> Iterator[None]:
        """Turn the errors of an answer that has another form into one of this switch."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            first = answer.strip().partition("\n")[0][:80]
            raise SwitchError(
                f"switch {self._switch.name} gives no readable {what}; its answer begins with {quoted(first)}",
                "the lab's admin: look at the versions of iproute2 and lldpd on the switch",
            ) from None

    def _state(self, line: str, vlans: Mapping[int, bool] | None) -> PortState:
        flags, carrier, speed, duplex, bridge, filtering = line.split("|")
        up = bool(int(flags, 16) & _IFF_UP)
        speed_mbps = int(speed) if speed.isdecimal() else 0
        return PortState(
            admin_up=up,
            carrier=carrier == "1" if up else None,
            speed_mbps=speed_mbps or None,
            duplex=duplex or None,
            vlan=access_vlan(vlans or {}) if filtering == "1" else self._bridges.vlan(bridge),
        )

    def configure(self, changes: Mapping[str, PortState]) -> None:
        """Configure all ports with one command; if one port refuses, the others are still set."""
        steps = []
        for name, state in changes.items():
            port = shlex.quote(name)
            if state.vlan is not None:
                steps.append(f"move {port} {state.vlan} {shlex.quote(self._bridges.name(state.vlan))}")
            if state.admin_up is not None:
                steps.append(f"ip link set {port} {'up' if state.admin_up else 'down'}")
        move = _MOVE.format(default=shlex.quote(self._bridges.default_bridge))
        script = _READ + move + "r=0; " + " ".join(f"{step} || r=$?;" for step in steps) + " exit $r"
        self._run(f"set {' and '.join(changes)}", as_root(script))

    def remove_vlan(self, vlan: int) -> None:
        """Remove a VLAN's own bridge if it is empty. With VLAN filtering, a VLAN disappears with its last member."""
        bridge = shlex.quote(self._bridges.name(vlan))
        if vlan == self._bridges.default_vlan:
            return
        members = f"/sys/class/net/{bridge}/brif"
        command = f'if [ -d {members} ] && [ -z "$(ls {members})" ]; then ip link del {bridge}; fi'
        self._run(f"remove VLAN {vlan}", as_root(command))

    def counters(self, ports: Iterable[str]) -> Mapping[str, PortCounters]:
        wanted = [*ports]
        files = " ".join(f"statistics/{name}" for name in _COUNTERS)
        out = self._run(
            f"read the counters of {' and '.join(wanted)}",
            f"{_READ} get /proc/sys/kernel/random/boot_id; boot=$value;"
            f" for port in {' '.join(map(shlex.quote, wanted))}; do known $port; get ifindex; line=$boot-$value;"
            f' for file in {files}; do get $file; line="$line $value"; done; echo "$line"; done',
        )
        now = time.monotonic()
        with self._readable("counters", out):
            return {port: _counters(now, line) for port, line in zip(wanted, out.splitlines(), strict=True)}

    def neighbours(self, ports: Iterable[str]) -> Mapping[str, frozenset[Neighbour]]:
        command = "bridge -j fdb show 2>/dev/null; echo; echo ---; lldpcli -f json0 show neighbors 2>/dev/null; :"
        out = self._run("read its neighbours", as_root(command))
        fdb, _, lldp = out.partition("\n---\n")
        with self._readable("neighbours", out):
            return neighbours_by_port(ports, [*neighbours_by_fdb(fdb), *neighbours_by_lldp(lldp)])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def untagged_vlans(text: str) -> dict[str, dict[int, bool]]:
    """Parse ``bridge -j vlan show``: by port, the VLANs that it sends untagged, and whether the VLAN is its PVID."""
    found: dict[str, dict[int, bool]] = {}
    for entry in json.loads(text) if text.strip() else []:
        vlans = found.setdefault(entry["ifname"], {})
        for vlan in entry.get("vlans", ()):
            flags = vlan.get("flags", ())
            if "Egress Untagged" in flags:
                for number in range(vlan["vlan"], vlan.get("vlanEnd", vlan["vlan"]) + 1):
                    vlans[number] = "PVID" in flags
    return found


def access_vlan(untagged: Mapping[int, bool]) -> int | None:
    """Return the one VLAN in which a port sends and receives untagged; 0 for no VLAN, None for any other case."""
    if not untagged:
        return 0
    (vlan, receives), *others = untagged.items()
    return vlan if receives and not others else None


def _counters(now: float, line: str) -> PortCounters:
    epoch, *values = line.split(" ")
    rx, tx, *rest = (int(value) if value.isdecimal() else None for value in values)
    rx_errors, tx_errors, rx_discards, tx_discards = rest
    return PortCounters(now, rx or 0, tx or 0, rx_errors, tx_errors, rx_discards, tx_discards, epoch)


def neighbours_by_fdb(text: str) -> list[tuple[str, Neighbour]]:
    """Parse ``bridge -j fdb show``: the learned MAC addresses, without the bridge's own."""
    return [
        (entry["ifname"], Neighbour(Capability.FDB, mac=entry["mac"].lower()))
        for entry in (json.loads(text) if text.strip() else [])
        if entry.get("master") and entry.get("state", "") not in ("permanent", "static", "noarp")
    ]


def neighbours_by_lldp(text: str) -> list[tuple[str, Neighbour]]:
    """Parse ``lldpcli -f json0 show neighbors``, in which every value is a list."""
    found = []
    for section in json.loads(text).get("lldp", ()) if text.strip() else ():
        for interface in section.get("interface", ()):
            chassis, port = _first(interface, "chassis"), _first(interface, "port")
            port_id = _first(port, "id")
            own_name = port_id.get("value") if port_id.get("type") in ("ifname", "ifalias", "local") else None
            neighbour = Neighbour(
                Capability.LLDP,
                # The MAC address of the chassis usually belongs to another NIC.
                mac=str(port_id["value"]).lower() if port_id.get("type") == "mac" else None,
                system=_first(chassis, "name").get("value"),
                port=own_name or _first(port, "descr").get("value"),
            )
            found.append((interface["name"], neighbour))
    return found


def _first(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    values = holder.get(key) or [{}]
    return values[0] if isinstance(values[0], dict) else {}


def connect(switch: Switch, settings: Mapping[str, str]) -> LinuxSwitch:
    """Connect: ``address`` (``ssh://user@host:port``), ``keyfile``, ``default_group`` (bridge of the default VLAN)."""
    address = settings["address"]
    connection = SshConnection(f"switch {switch.name}", address, ssh_words(address, settings.get("keyfile")))
    bridges = Bridges(switch.default_vlan, settings.get("default_group", "br0"))
    return LinuxSwitch(switch, connection.shell, bridges, connection)
