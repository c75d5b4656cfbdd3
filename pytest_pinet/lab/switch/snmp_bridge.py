"""Access VLANs through Q-BRIDGE-MIB: read the access VLAN of a port, and move a port to another VLAN.

A port is in an access VLAN if it puts received untagged frames into that VLAN (PVID) and sends untagged frames from
that VLAN alone. Some switches change only one half, others accept a change and do nothing: only ``access_vlan`` shows
the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_pinet.errors import SwitchError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab import contention
from pytest_pinet.lab.switch import snmp_tables as mib
from pytest_pinet.lab.switch.snmp_client import Oid, Refusal, SnmpClient, Unsigned, Value

# Another manager may change the same port list after we read it and before we set it.
MASK_TRIES = 5
TURN_TIMEOUT_S = 30.0
# On some switches a new VLAN appears with a delay.
MADE_TIMEOUT_S = 2.0
_INCONSISTENT_VALUE = 12
_Sets = list[tuple[Oid, int | bytes]]


def access_vlan(pvid: Value | None, port: int, untagged: Mapping[Oid, Value]) -> int | None:
    """Return the access VLAN of a bridge port, or None if it is not in exactly one; ``untagged`` is that column."""
    if not isinstance(pvid, int):
        return None
    sent = [vlan for (vlan,), mask in untagged.items() if isinstance(mask, bytes) and mib.has_port(mask, port)]
    if not untagged or sent == [pvid]:
        return pvid
    return None


class SnmpVlanTable:
    """Moves bridge ports between VLANs. ``key`` identifies the switch in the queue of this host."""

    def __init__(self, client: SnmpClient, key: str) -> None:
        self._client = client
        self._key = key
        # net-snmp 5.9 has the serial number, and refuses to set it on 64-bit machines (wrongLength).
        self._has_serial = True

    def move(self, vlans: Mapping[int, int]) -> None:
        """Put bridge ports into access VLANs; missing VLANs are created. Raises SwitchError.

        All ports of a VLAN share its member lists, so two managers at the same time could undo each other's change.
        Runners of one host therefore take turns. Against other managers, the set carries the agent's serial number, if
        the agent supports it; the result is read again, and the change is repeated if another manager was first.
        """
        with contention.exclusive(self._key, ["VLAN lists"], TURN_TIMEOUT_S, lambda _: None):
            self._create(set(vlans.values()))
            pvids: _Sets = [((*mib.PVID, port), Unsigned(vlan)) for port, vlan in vlans.items()]
            for attempt in range(MASK_TRIES):
                serial = self._client.get([mib.SET_SERIAL])[0] if self._has_serial else None
                columns = self._client.columns([mib.VLAN_EGRESS, mib.VLAN_UNTAGGED])
                joining, leaving = _changes(columns[mib.VLAN_EGRESS], columns[mib.VLAN_UNTAGGED], vlans)
                if not pvids and not joining and not leaving:
                    return
                if self._set(serial, pvids, joining, leaving, last=attempt == MASK_TRIES - 1):
                    pvids = []

    def _set(self, serial: Value | None, pvids: _Sets, joining: _Sets, leaving: _Sets, last: bool) -> bool:
        """Return whether the change was set; if not, it must be computed again."""
        lock: _Sets = [(mib.SET_SERIAL, serial)] if isinstance(serial, int) else []
        try:
            self._client.set([*lock, *pvids, *joining, *leaving])
        except Refusal as refusal:
            if refusal.not_allowed or last:
                raise
            if lock and refusal.oid == mib.SET_SERIAL:
                self._has_serial = refusal.status == _INCONSISTENT_VALUE
                return False
            self._set_in_steps(pvids, joining, leaving)
        return True

    def _set_in_steps(self, pvids: _Sets, joining: _Sets, leaving: _Sets) -> None:
        """Set in steps, if one request is refused. A port in two VLANs for a moment is better than one in none."""
        try:
            self._client.set_each(pvids)
            pvids = []
        except Refusal as refusal:
            if refusal.not_allowed:
                raise
        self._client.set_each(joining)
        # Some switches require the membership first.
        self._client.set_each(pvids)
        self._client.set_each(leaving)

    def remove(self, vlan: int) -> None:
        """Delete a VLAN without members; does nothing if it does not exist or has members."""
        row: Oid = (*mib.VLAN_ROW_STATUS, vlan)
        status, egress = self._client.get([row, (*mib.VLAN_EGRESS, vlan)])
        if status is None or (isinstance(egress, bytes) and any(egress)):
            return
        try:
            self._client.set([(row, mib.DESTROY)])
        except Refusal as refusal:
            # Another runner has just put a port into this VLAN.
            if refusal.status != _INCONSISTENT_VALUE:
                raise

    def _create(self, vlans: Iterable[int]) -> None:
        rows = {vlan: (*mib.VLAN_ROW_STATUS, vlan) for vlan in sorted(vlans)}
        found = self._client.get([*rows.values()])
        missing = [vlan for vlan, status in zip(rows, found, strict=True) if status != mib.ACTIVE]
        if not missing:
            return
        named: _Sets = []
        for vlan in missing:
            named += [(rows[vlan], mib.CREATE_AND_GO), ((*mib.VLAN_NAME, vlan), f"pinet-{vlan}".encode())]
        try:
            self._client.set(named)
        except Refusal as refusal:
            if refusal.not_allowed:
                raise
            for vlan in missing:
                self._create_one(rows[vlan])
        wanted = [rows[vlan] for vlan in missing]
        if not Deadline(MADE_TIMEOUT_S).wait_until(lambda: set(self._client.get(wanted)) == {mib.ACTIVE}):
            absent = [v for v, status in zip(missing, self._client.get(wanted), strict=True) if status != mib.ACTIVE]
            raise SwitchError(
                f"switch {self._client.name} accepted VLAN {(absent or missing)[0]}, but did not create it",
                "the lab's admin: look at the switch; its firmware or the rights of this user prevent the change",
            )

    def _create_one(self, row: Oid) -> None:
        """Create one VLAN without a name. It may exist already: an answer was lost, or another manager created it."""
        try:
            self._client.set([(row, mib.CREATE_AND_GO)])
        except Refusal:
            if self._client.get([row]) != [mib.ACTIVE]:
                raise


def _changes(
    egress: Mapping[Oid, Value], untagged: Mapping[Oid, Value], vlans: Mapping[int, int]
) -> tuple[_Sets, _Sets]:
    """Return the changes: lists that ports join, and lists that ports leave. Tagged membership is not touched."""
    length = max((len(mask) for mask in egress.values() if isinstance(mask, bytes)), default=0)
    joining: _Sets = []
    leaving: _Sets = []
    for index in sorted({*untagged, *((vlan,) for vlan in vlans.values())}):
        for column, masks in ((mib.VLAN_EGRESS, egress), (mib.VLAN_UNTAGGED, untagged)):
            found = masks.get(index, b"")
            old = found if isinstance(found, bytes) else b""
            new = old.ljust(length, b"\0")
            sent = untagged.get(index, b"")
            for port, vlan in vlans.items():
                if (vlan,) == index:
                    new = mib.with_port(new, port, True)
                elif isinstance(sent, bytes) and mib.has_port(sent, port):
                    new = mib.with_port(new, port, False)
            if new.rstrip(b"\0") != old.rstrip(b"\0"):
                joins = any((vlan,) == index for vlan in vlans.values())
                (joining if joins else leaving).append(((*column, *index), new))
    return joining, leaving
