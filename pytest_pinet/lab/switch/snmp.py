"""A switch managed by SNMP: IF-MIB, Q-BRIDGE-MIB, POWER-ETHERNET-MIB and LLDP-MIB, as far as the switch has them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from pytest_pinet.config.switches import timeout
from pytest_pinet.errors import SwitchError, mistake_in
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.lab.switch import snmp_tables as mib
from pytest_pinet.lab.switch.snmp_bridge import SnmpVlanTable, access_vlan, by_fdb, by_lldp
from pytest_pinet.lab.switch.snmp_client import Access, Oid, SnmpClient, Value
from pytest_pinet.lab.switch.snmp_proxy import SnmpProxy
from pytest_pinet.lab.switch.switchport import (
    UNPLACED,
    About,
    Capability,
    Neighbour,
    PortCounters,
    PortState,
    neighbours_by_port,
    snmp_kind,
)
from pytest_pinet.model.forms import snmp_address
from pytest_pinet.model.lab import Switch

DEFAULT_TIMEOUT_S = 5.0
# sysUpTime counts hundredths of a second. A clock that differs by a few seconds is no reboot.
_REBOOT_SLACK_S = 5.0
_SETTINGS = frozenset({Capability.ADMIN, Capability.VLAN, Capability.POE})
_COUNTERS = (
    mib.IF_HC_IN_OCTETS,
    mib.IF_HC_OUT_OCTETS,
    mib.IF_IN_ERRORS,
    mib.IF_OUT_ERRORS,
    mib.IF_IN_DISCARDS,
    mib.IF_OUT_DISCARDS,
    mib.IF_DISCONTINUITY,
    # The 32-bit counters of older switches; they wrap every 34 s at 1 Gbit/s.
    mib.IF_IN_OCTETS,
    mib.IF_OUT_OCTETS,
)


@dataclass(frozen=True)
class _SnmpAgent:
    """The agent's description of itself.

    ``names`` holds interfaces by port name, ``bridge_ports`` holds bridge ports by interface, and ``pse_ports`` the
    numbers in the PoE table. ``tables`` holds what it can report.
    """

    names: Mapping[str, int]
    bridge_ports: Mapping[int, int]
    pse_ports: frozenset[Oid]
    tables: frozenset[Capability]


class SnmpSwitch:
    """A switch managed by SNMP. It reads its capabilities at the first use. ``poe_group`` is usually 1.

    A setting that these credentials cannot set is no capability of the switch, but ``states`` still reports it.
    """

    def __init__(self, switch: Switch, client: SnmpClient, vlans: SnmpVlanTable, poe_group: int) -> None:
        self._switch = switch
        self._client = client
        self._vlan_table = vlans
        self._poe_group = poe_group
        self._started_at: float | None = None
        self._reboots = 0

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._agent.tables - self._denied

    @cached_property
    def about(self) -> About:
        (object_id,) = self._client.get([mib.SYS_OBJECT_ID])
        kind = snmp_kind(".".join(map(str, object_id)) if isinstance(object_id, tuple) else "")
        return replace(kind, note=self._note)

    @property
    def _note(self) -> str:
        if not self._denied:
            return ""
        if self._switch.is_read_only:
            return f"{self._switch.where} says `read_only: true`"
        if self._denied == self._agent.tables & _SETTINGS:
            return f"{self._client.who} may only read it"
        return f"{self._client.who} cannot set {' and '.join(sorted(self._denied))}"

    @cached_property
    def _denied(self) -> frozenset[Capability]:
        """The settings that the agent shows, but that these credentials cannot set."""
        there = self._agent.tables & _SETTINGS
        if self._switch.is_read_only:
            return there
        return frozenset(one for one in there if (oid := self._first(one)) and not self._client.may_set(oid))

    def _first(self, setting: Capability) -> Oid | None:
        """Return the object of this setting for the first port that has one."""
        for port in self._switch.ports:
            interface = self._interface(port)
            if setting is Capability.ADMIN:
                return (*mib.IF_ADMIN_STATUS, interface)
            if setting is Capability.VLAN and interface in self._agent.bridge_ports:
                return (*mib.PVID, self._agent.bridge_ports[interface])
            if setting is Capability.POE and (index := self._pse_port(port)) is not None:
                return (*mib.PSE_ADMIN_ENABLE, *index)
        return None

    @cached_property
    def _agent(self) -> _SnmpAgent:
        columns = self._client.columns(
            [mib.IF_NAME, mib.IF_DESCR, mib.IF_ALIAS, mib.BRIDGE_PORT_INTERFACE, mib.PSE_ADMIN_ENABLE]
        )
        interfaces = {i[0]: n for i, n in columns[mib.BRIDGE_PORT_INTERFACE].items() if isinstance(n, int)}
        learning = (mib.BRIDGE_AGING_TIME, mib.VLAN_FDB_PORT, mib.FDB_PORT)
        tables = (mib.IF_ADMIN_STATUS, mib.PVID, mib.LLDP_LOCAL_ID, *learning)
        following = self._client.following(tables)
        has = {table for table, name in zip(tables, following, strict=True) if name[: len(table)] == table}
        found = set()
        if mib.IF_ADMIN_STATUS in has:
            found |= {Capability.LINK, Capability.ADMIN, Capability.COUNTERS}
        if mib.PVID in has and interfaces:
            found.add(Capability.VLAN)
        if columns[mib.PSE_ADMIN_ENABLE]:
            found.add(Capability.POE)
        if mib.LLDP_LOCAL_ID in has:
            found.add(Capability.LLDP)
        # An empty table looks like a missing one. Both conditions together show a bridge that learns addresses.
        if interfaces and has & {mib.PVID, *learning}:
            found.add(Capability.FDB)
        return _SnmpAgent(
            names=port_names(columns),
            bridge_ports={interface: port for port, interface in interfaces.items()},
            pse_ports=frozenset(columns[mib.PSE_ADMIN_ENABLE]),
            tables=frozenset(found),
        )

    def _interface(self, port: str) -> int:
        names = self._agent.names
        if port not in names:
            some = ", ".join(sorted(names, key=lambda name: (len(name), name))[:12]) or "none"
            raise SwitchError(
                f"switch {self._switch.name} has no port with the name, description, alias or number {port!r}; "
                f"ports of this switch: {some}",
                f"correct the ports of {self._switch.name} in {self._switch.where}",
            )
        return names[port]

    def _bridge_port(self, port: str) -> int:
        number = self._agent.bridge_ports.get(self._interface(port))
        if number is None:
            raise SwitchError(
                f"port {port} of switch {self._switch.name} has no VLAN, because it is no port of the switch's bridge",
                "the lab's admin: remove the port from its link aggregate or routed mode, or correct the lab file",
            )
        return number

    def _pse_port(self, port: str) -> Oid | None:
        """Return its number in the PoE table: mostly its bridge port number, on some switches its interface number."""
        interface = self._interface(port)
        candidates = [(self._poe_group, n) for n in (self._agent.bridge_ports.get(interface), interface) if n]
        return next((index for index in candidates if index in self._agent.pse_ports), None)

    def _table(self, ports: Sequence[str], columns: Sequence[Oid]) -> dict[str, list[Value | None]]:
        """Return these columns of the interface tables by port, with as few requests as possible."""
        oids = [(*column, self._interface(port)) for port in ports for column in columns]
        values = self._client.get(oids)
        return {p: values[n * len(columns) : (n + 1) * len(columns)] for n, p in enumerate(ports)}

    def states(self, ports: Iterable[str]) -> Mapping[str, PortState]:
        wanted = [*ports]
        columns = (mib.IF_ADMIN_STATUS, mib.IF_OPER_STATUS, mib.IF_HIGH_SPEED, mib.DUPLEX)
        rows = self._table(wanted, columns)
        gone = [port for port, row in rows.items() if row[0] is None]
        if gone:
            # Interfaces get new numbers when a switch restarts or a module is exchanged.
            del self._agent
            rows |= self._table(gone, columns)
        vlans, power = self._vlans(wanted), self._power(wanted)
        return {port: _state(rows[port], vlans.get(port), power.get(port)) for port in wanted}

    def _vlans(self, ports: Sequence[str]) -> dict[str, int | None]:
        if Capability.VLAN not in self._agent.tables:
            return {}
        numbers = {port: n for port in ports if (n := self._agent.bridge_ports.get(self._interface(port)))}
        pvids = self._client.get([(*mib.PVID, number) for number in numbers.values()])
        untagged = self._client.columns([mib.VLAN_UNTAGGED])[mib.VLAN_UNTAGGED]
        return {
            port: access_vlan(pvid, number, untagged)
            for (port, number), pvid in zip(numbers.items(), pvids, strict=True)
        }

    def _power(self, ports: Sequence[str]) -> dict[str, bool | None]:
        if Capability.POE not in self._agent.tables:
            return {}
        fed = {port: index for port in ports if (index := self._pse_port(port)) is not None}
        enabled = self._client.get([(*mib.PSE_ADMIN_ENABLE, *index) for index in fed.values()])
        return {p: None if value is None else value == mib.TRUE for p, value in zip(fed, enabled, strict=True)}

    def configure(self, changes: Mapping[str, PortState]) -> None:
        """Set VLANs first, so that no port comes up in the wrong VLAN."""
        vlans = {self._bridge_port(port): state.vlan for port, state in changes.items() if state.vlan is not None}
        if vlans:
            self._vlan_table.move(vlans)
        sets: list[tuple[Oid, int | bytes]] = []
        for port, state in changes.items():
            if state.admin_up is not None:
                sets.append(((*mib.IF_ADMIN_STATUS, self._interface(port)), mib.UP if state.admin_up else mib.DOWN))
            if state.poe is not None:
                index = self._pse_port(port)
                if index is None:
                    raise SwitchError(
                        f"switch {self._switch.name} has no PoE on port {port} (in PoE group {self._poe_group})",
                        f"if the switch numbers its PoE ports in another group, set `poe_group:` in "
                        f"{self._switch.where}",
                    )
                sets.append(((*mib.PSE_ADMIN_ENABLE, *index), mib.TRUE if state.poe else mib.FALSE))
        if sets:
            self._client.set_each(sets)

    def remove_vlan(self, vlan: int) -> None:
        self._vlan_table.remove(vlan)

    def counters(self, ports: Iterable[str]) -> Mapping[str, PortCounters]:
        wanted = [*ports]
        uptime = self._client.get([mib.SYS_UP_TIME])[0]
        # Detect a reboot between two readings, even if the switch has been up for long since.
        started_at = time.monotonic() - (uptime if isinstance(uptime, int) else 0) / 100
        if self._started_at is not None and started_at > self._started_at + _REBOOT_SLACK_S:
            self._reboots += 1
        self._started_at = started_at
        rows = self._table(wanted, _COUNTERS)
        now = time.monotonic()
        return {port: self._counted(now, port, row) for port, row in rows.items()}

    def _counted(self, now: float, port: str, row: Sequence[Value | None]) -> PortCounters:
        values = [value if isinstance(value, int) else None for value in row]
        rx, tx, rx_errors, tx_errors, rx_discards, tx_discards, discontinuity, rx32, tx32 = values
        bits = 32 if rx is None or tx is None else 64
        rx, tx = (rx32, tx32) if bits == 32 else (rx, tx)
        if rx is None or tx is None:
            raise SwitchError(f"switch {self._switch.name} has no byte counters for port {port}")
        epoch = f"{self._reboots}-{discontinuity or 0}"
        return PortCounters(now, rx, tx, rx_errors, tx_errors, rx_discards, tx_discards, epoch, True, bits)

    def neighbours(self, ports: Iterable[str]) -> Mapping[str, frozenset[Neighbour]]:
        interfaces = {self._interface(port): port for port in ports}
        seen: list[tuple[int | None, Neighbour]] = []
        if Capability.LLDP in self.capabilities:
            seen += by_lldp(self._client, self._agent.names, interfaces.keys())
        if Capability.FDB in self.capabilities:
            seen += by_fdb(self._client, self._agent.names, interfaces.keys())
        named = [
            (UNPLACED if number is None else interfaces[number], neighbour)
            for number, neighbour in seen
            if number is None or number in interfaces
        ]
        return neighbours_by_port(interfaces.values(), named)

    def close(self) -> None:
        self._client.close()


def port_names(columns: Mapping[Oid, Mapping[Oid, Value]]) -> dict[str, int]:
    """Return interface numbers by port name: the interface's name, else its description, its alias, or its number.

    A text that several interfaces share names none of them.
    """
    found: dict[str, int] = {}
    for column in (mib.IF_NAME, mib.IF_DESCR, mib.IF_ALIAS):
        by_text = grouped((mib.text(value), index[0]) for index, value in columns[column].items())
        for name, numbers in by_text.items():
            if name and len(numbers) == 1:
                found.setdefault(name, numbers[0])
    for index in [*columns[mib.IF_NAME], *columns[mib.IF_DESCR]]:
        found.setdefault(str(index[0]), index[0])
    return found


def _state(row: Sequence[Value | None], vlan: int | None, poe: bool | None) -> PortState:
    admin, oper, speed, duplex = row
    up = None if admin is None else admin == mib.UP
    return PortState(
        admin_up=up,
        carrier=None if oper is None or not up else oper == mib.UP,
        speed_mbps=speed if isinstance(speed, int) and speed > 0 else None,
        duplex=mib.DUPLEX_WORDS.get(duplex) if isinstance(duplex, int) else None,
        vlan=vlan,
        poe=poe,
    )


def connect(switch: Switch, settings: Mapping[str, str]) -> SnmpSwitch:
    """Return the switch for these settings (see ``config.switches``). Sends nothing before the first use."""
    with mistake_in(f"switch {switch.name!r}", switch.where):
        address = snmp_address(settings["address"])
        host, port = address.host, address.port or 161
        timeout_s = timeout(settings["timeout"]) if "timeout" in settings else DEFAULT_TIMEOUT_S
        poe_group = int(settings.get("poe_group", "1"))
    names = {field.name for field in fields(Access)} - {"name", "host", "port", "where", "timeout_s"}
    credentials = {name: settings[name] for name in names & settings.keys()}
    access = Access(switch.name, host, port, switch.where, timeout_s=timeout_s, **credentials)
    proxy, key = None, f"snmp://{host}:{port}"
    if "proxy" in settings:
        proxy = SnmpProxy(switch.name, settings["proxy"], settings.get("keyfile"), (host, port), switch.where)
        # Behind each proxy is a network of its own.
        key += f" {proxy}"
    client = SnmpClient(access, proxy)
    return SnmpSwitch(switch, client, SnmpVlanTable(client, key), poe_group)
