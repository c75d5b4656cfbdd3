"""A switch in use: it changes only ports of the lab file, reads every setting back, and restores the original states.

It handles what is the same for all backends: the VLAN of each group of ports, leftovers of dead runs in that VLAN, and
the original state of each port.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pytest_pinet.config.yaml_lines import substitute
from pytest_pinet.errors import CapabilityError, SwitchError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.switch import switchport
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.switchport import About, Capability, Neighbour, PortCounters, PortState, SwitchBackend
from pytest_pinet.model.lab import Lab, Switch

# net-snmp shows a change of ifTable only after its cache of 3 s has expired; some switches need seconds to write a
# VLAN.
READ_BACK_TIMEOUT_S = 8.0
DEFAULT_COUNTER_LATENCY_S = 5.0
VLAN_RANGE = range(1, 4095)
# The settings of a port, and the capability that each needs.
_SETTINGS = {"admin_up": Capability.ADMIN, "vlan": Capability.VLAN, "poe": Capability.POE}
_DOES = {
    Capability.LINK: "report the link of a port",
    Capability.ADMIN: "bring a port up or down",
    Capability.VLAN: "move a port to another VLAN",
    Capability.COUNTERS: "report the counters of a port",
    Capability.POE: "switch the power of a port",
    Capability.LLDP: "report the neighbour of a port",
    Capability.FDB: "report the neighbour of a port",
}


class ManagedSwitch:
    """One switch of the lab file. ``journal`` keeps the original states of its ports across a crash."""

    def __init__(self, switch: Switch, backend: SwitchBackend, journal: Journal) -> None:
        self.name = switch.name
        self._switch = switch
        self._backend = backend
        self._journal = journal
        # The original states of the ports that are changed now; only the changed settings of each port.
        self._found: dict[str, PortState] = {}

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._backend.capabilities

    @property
    def counter_latency_s(self) -> float:
        """The maximum age of its counters: as in the lab file, else 5 s; 0 s for a Linux switch."""
        if self._switch.counter_latency_s is not None:
            return self._switch.counter_latency_s
        return 0.0 if self._switch.backend == "linux" else DEFAULT_COUNTER_LATENCY_S

    @property
    def ports(self) -> tuple[str, ...]:
        return self._switch.ports

    @property
    def rewires(self) -> bool:
        """Whether this switch can separate groups of ports."""
        return Capability.VLAN in self.capabilities

    @property
    def about(self) -> About:
        return self._backend.about

    def require(self, capability: Capability) -> None:
        """Raise CapabilityError unless the switch has this capability."""
        if capability not in self.capabilities:
            has = ", ".join(sorted(self.capabilities)) or "none"
            because = f", because {self.about.note}" if self.about.note and capability in _SETTINGS.values() else ""
            raise CapabilityError(
                f"switch {self.name} (backend {self._switch.backend}) cannot {_DOES[capability]}{because}; "
                f"its capabilities: {has}"
            )

    def state(self, port: str) -> PortState:
        return self.states([port])[port]

    def states(self, ports: Iterable[str]) -> Mapping[str, PortState]:
        """Return the current states of these ports; empty states if the switch cannot report them."""
        listed = self._listed(ports)
        if not self.capabilities & {Capability.LINK, Capability.ADMIN, Capability.VLAN, Capability.POE}:
            return {port: PortState() for port in listed}
        return self._backend.states(listed)

    def counters(self, ports: Iterable[str]) -> Mapping[str, PortCounters]:
        """Return the counters of these ports. Raises CapabilityError."""
        self.require(Capability.COUNTERS)
        return self._backend.counters(self._listed(ports))

    def neighbours(self, ports: Iterable[str]) -> Mapping[str, frozenset[Neighbour]]:
        """Return the neighbours at the far end of these ports. Raises CapabilityError."""
        if Capability.FDB not in self.capabilities:
            self.require(Capability.LLDP)
        return self._backend.neighbours(self._listed(ports))

    def wire(self, groups: Sequence[frozenset[str]], undo: UndoStack) -> None:
        """Isolate each group in its own VLAN, with its ports up; ``undo`` restores the ports.

        Returns when the switch shows the change. If the switch cannot rewire, nothing is changed; then all its ports
        reach each other, as far as it reports. Raises CapabilityError if it reports that a group has several VLANs.
        """
        if not self.rewires:
            for group in groups:
                self._check_wired(group)
            return
        wanted: dict[str, PortState] = {}
        for group in groups:
            ports = self._listed(group)
            # The VLAN depends on the first port: ports are leased with their nodes, so no two live groups share it.
            vlan = self._switch.group_vlans[self._switch.ports.index(ports[0])]
            wanted.update({port: PortState(admin_up=True, vlan=vlan) for port in ports})
        if len(wanted) != sum(map(len, groups)):
            raise ValueError("a port cannot be in two groups")
        found = self._backend.states(self._switch.ports)
        self._check_home({port: found[port] for port in wanted})
        vlans = {state.vlan for state in wanted.values()}
        # A live run that uses such a port would hold our ports, too. So a dead run left the port in this VLAN.
        strangers = [port for port, state in found.items() if state.vlan in vlans and port not in wanted]
        homes = {port: self._original(port, found[port]) for port in strangers}
        self._remember({port: found[port] for port in wanted}, ("admin_up", "vlan"))
        undo.add(f"the wiring of {_and([*wanted])} on switch {self.name}", partial(self.restore, [*wanted]))
        self._apply({**homes, **wanted}, found)
        self._journal.forget(self.name, strangers)
        self._remove_empty({found[port].vlan for port in wanted} - vlans)

    def _check_wired(self, group: Collection[str], note: str = "") -> None:
        """Check that the ports of a group reach each other as they are. Raises CapabilityError, SwitchError."""
        states = self.states(group)
        note = note or self.about.note
        because = f", because {note}" if note else ""
        vlans = {port: state.vlan for port, state in states.items() if state.vlan is not None}
        if len({*vlans.values()}) > 1:
            found = ", ".join(f"port {port} in VLAN {vlan}" for port, vlan in vlans.items())
            raise CapabilityError(f"switch {self.name} has {found}, and pinet cannot move these ports{because}")
        down = [port for port, state in states.items() if state.admin_up is False]
        if down and Capability.ADMIN not in self.capabilities:
            raise SwitchError(
                f"port {down[0]} of switch {self.name} is administratively down, and pinet cannot bring it up{because}",
                "the lab's admin: enable the port",
            )

    def keep(self, ports: Collection[str], untouched: Collection[str], undo: UndoStack) -> None:
        """Leave a group of ports in their VLAN, and bring ``ports`` up; ``undo`` restores them.

        Ports that a dead run left in the VLAN of a group are restored first. The ports in ``untouched``, which carry
        our connections, are only read. Raises CapabilityError if the ports of the group are in several VLANs.
        """
        found = self.states(ports)
        groups = self._switch.group_vlans
        self.put_back({port: self._original(port, state) for port, state in found.items() if state.vlan in groups})
        for port in (port for port, state in found.items() if state.admin_up is False):
            if Capability.ADMIN in self.capabilities:
                self.set_admin(port, True, undo)
        carry = "carries" if len(untouched) == 1 else "carry"
        note = f"{_and(sorted(untouched))} {carry} the connection to a node" if untouched else ""
        self._check_wired([*ports, *untouched], note)

    def set_admin(self, port: str, up: bool, undo: UndoStack | None = None) -> None:
        """Bring a port up or down; returns when the switch shows it. ``undo`` restores the port."""
        self.require(Capability.ADMIN)
        self._set(port, PortState(admin_up=up), undo)

    def interrupt(self, port: str, seconds: float, undo: UndoStack) -> None:
        """Take a port down for so many seconds; returns when the switch shows it up. ``undo`` brings it up, too.

        The switch is not read while the port is down, because some switches show a change only seconds later.
        """
        self.require(Capability.ADMIN)
        before, up = self.state(port), PortState(admin_up=True)
        if before.admin_up is False:
            raise SwitchError(f"port {port} of switch {self.name} is administratively down", "enable the port")
        held = port in self._found
        self._remember({port: before}, ["admin_up"])

        def back() -> None:
            if held:
                self._apply({port: up}, {port: self.state(port)})
            else:
                self.restore([port])

        undo.add(f"up on port {port} of switch {self.name}", back)
        self._backend.configure({port: PortState(admin_up=False)})
        time.sleep(seconds)
        self._apply({port: up}, {})
        if not held:
            self._journal.forget(self.name, [port])
            del self._found[port]

    def set_vlan(self, port: str, vlan: int, undo: UndoStack | None = None) -> None:
        """Put a port into an access VLAN (1 to 4094); returns when the switch shows it. ``undo`` restores the port."""
        self.require(Capability.VLAN)
        if vlan not in VLAN_RANGE:
            raise ValueError(f"{vlan} is no VLAN; expected 1 to 4094")
        self._set(port, PortState(vlan=vlan), undo)

    def set_poe(self, port: str, on: bool, undo: UndoStack | None = None) -> None:
        """Switch the power (PoE) of a port; returns when the switch shows it. ``undo`` restores the port."""
        self.require(Capability.POE)
        self._set(port, PortState(poe=on), undo)

    def switch_power(self, port: str, on: bool) -> None:
        """Switch a board that the port powers; returns when the switch shows it. It stays so: nothing restores it."""
        self.require(Capability.POE)
        self._apply({one: PortState(poe=on) for one in self._listed([port])}, {})

    def restore(self, ports: Iterable[str]) -> None:
        """Restore the changed settings of these ports, and remove the group VLANs that are then empty."""
        self.put_back({port: self._found[port] for port in ports if port in self._found})

    def put_back(self, wanted: Mapping[str, PortState]) -> None:
        """Set ports back to their original states, which this or another process recorded."""
        if not wanted:
            return
        current = self._backend.states(self._listed(wanted))
        for port, state in wanted.items():
            if lost := in_words(_differing(state, self._settable(state))):
                raise SwitchError(
                    f"{lost} on port {port} of switch {self.name} was not restored, because "
                    f"{self.about.note or 'the switch no longer has this setting'}",
                    f"allow pinet to set ports of {self.name} again, then run: pinet lab restore",
                )
        self._apply(wanted, current)
        self._journal.forget(self.name, wanted)
        for port in wanted:
            self._found.pop(port, None)
        self._remove_empty({current[port].vlan for port in wanted} - {state.vlan for state in wanted.values()})

    def close(self) -> None:
        """End the connection to the switch. Changes that were not undone stay, and the journal keeps them."""
        self._backend.close()

    def _listed(self, ports: Iterable[str]) -> list[str]:
        """Return these ports in the order of the lab file. Raises SwitchError for a port that is not in it."""
        wanted = set(ports)
        unknown = sorted(wanted - set(self._switch.ports))
        if unknown:
            raise SwitchError(
                f"port {unknown[0]} of switch {self.name} was not used, because it is not in the lab file",
                f"if pinet may use this port, add it to `ports:` in {self._switch.where}",
            )
        return [port for port in self._switch.ports if port in wanted]

    def _check_home(self, found: Mapping[str, PortState]) -> None:
        for port, state in found.items():
            if state.vlan is None:
                raise SwitchError(
                    f"switch {self.name} shows that port {port} is not in exactly one access VLAN. The port was not "
                    "changed, because pinet could not restore it later",
                    "the lab's admin: make it an access port (untagged in one VLAN), or remove it from the lab file",
                )

    def _original(self, port: str, state: PortState) -> PortState:
        """Return the original state of a port: from the journal if a dead run put the port into a group VLAN."""
        if state.vlan is None or state.vlan not in self._switch.group_vlans:
            return state
        known = self._journal.original(self.name, port)
        recorded = {key: value for key in _SETTINGS if (value := getattr(known, key, None)) is not None}
        return replace(state, **{"vlan": self._switch.default_vlan, **recorded})

    def _settable(self, state: PortState) -> PortState:
        """Return only the settings that this switch can change."""
        return PortState(**{key: getattr(state, key) for key, need in _SETTINGS.items() if need in self.capabilities})

    def _remember(self, found: Mapping[str, PortState], keys: Collection[str]) -> None:
        """Record the original states before the first change, so that every change can be undone."""
        fresh = {}
        for port, state in found.items():
            known = self._found.get(port, PortState())
            home = self._settable(self._original(port, state))
            missing = {key: getattr(home, key) for key in keys if getattr(known, key) is None}
            fresh[port] = replace(known, **missing)
        self._found.update(self._journal.record(self.name, fresh))

    def _set(self, port: str, wanted: PortState, undo: UndoStack | None) -> None:
        before = self.state(port)
        if _has(before, wanted):
            return
        if wanted.vlan is not None:
            self._check_home({port: before})
        keys = [key for key in _SETTINGS if getattr(wanted, key) is not None]
        untouched = port not in self._found
        self._remember({port: before}, keys)
        if undo is not None:
            back = PortState(**{key: getattr(before, key) for key in keys})
            what = f"{in_words(wanted)} on port {port} of switch {self.name}"
            undo.add(what, lambda: self.restore([port]) if untouched else self._apply({port: back}, {}))
        now = self._apply({port: wanted}, {port: before})[port]
        if _has(now, self._found[port]):
            # The new state equals the original state, so nothing is left to restore.
            self._journal.forget(self.name, [port])
            del self._found[port]

    def _apply(self, wanted: Mapping[str, PortState], found: Mapping[str, PortState]) -> Mapping[str, PortState]:
        """Set what differs, and wait until the switch shows it."""
        wanted = {port: self._settable(want) for port, want in wanted.items()}
        changes = {port: _differing(want, found.get(port)) for port, want in wanted.items()}
        changes = {port: change for port, change in changes.items() if change != PortState()}
        if not changes:
            return found
        self._backend.configure(changes)
        last: Mapping[str, PortState] = {}

        def applied() -> bool:
            nonlocal last
            last = self._backend.states(changes)
            return all(_has(last[port], wanted[port]) for port in changes)

        if not Deadline(READ_BACK_TIMEOUT_S).wait_until(applied):
            wrong = [
                f"port {port} is {_seen(last[port], wanted[port])} instead of {in_words(wanted[port])}"
                for port in changes
                if not _has(last[port], wanted[port])
            ]
            raise SwitchError(
                f"switch {self.name} accepted a change, but {READ_BACK_TIMEOUT_S:g} s later {', '.join(wrong)}",
                "the lab's admin: look at the switch; its firmware or the rights of this user prevent the change",
            )
        return last

    def _remove_empty(self, vlans: Iterable[int | None]) -> None:
        for vlan in sorted(vlan for vlan in vlans if vlan is not None and vlan in self._switch.group_vlans):
            self._backend.remove_vlan(vlan)


def _has(state: PortState, wanted: PortState) -> bool:
    """Return whether a port has all wanted settings; None in ``wanted`` matches any value."""
    return all(getattr(wanted, key) in (None, getattr(state, key)) for key in _SETTINGS)


def _differing(wanted: PortState, found: PortState | None) -> PortState:
    if found is None:
        return wanted
    return PortState(**{key: getattr(wanted, key) for key in _SETTINGS if getattr(wanted, key) != getattr(found, key)})


def in_words(wanted: PortState) -> str:
    """Return the settings in words: ``VLAN 3900 and up``."""
    words = [] if wanted.vlan is None else [f"VLAN {wanted.vlan}"]
    words += [] if wanted.admin_up is None else ["up" if wanted.admin_up else "down"]
    words += [] if wanted.poe is None else [f"power {'on' if wanted.poe else 'off'}"]
    return _and(words)


def _seen(state: PortState, wanted: PortState) -> str:
    """Return the same settings in words, as the switch shows them."""
    words = []
    if wanted.vlan is not None:
        words.append("not in exactly one access VLAN" if state.vlan is None else f"in VLAN {state.vlan}")
    if wanted.admin_up is not None:
        words.append({True: "up", False: "down", None: "neither up nor down"}[state.admin_up])
    if wanted.poe is not None:
        words.append({True: "powered", False: "without power", None: "in an unknown power state"}[state.poe])
    return _and(words)


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def open_switch(lab: Lab, name: str) -> ManagedSwitch:
    """Return a switch of the lab. The environment fills in its settings; its changes go into this process's journal.

    Raises ConfigError, and LabError when the switch does not answer.
    """
    switch = lab.switches[name]
    settings = {key: substitute(text, os.environ, lab.file) for key, text in switch.settings.items()}
    return ManagedSwitch(switch, switchport.connect(switch, settings), Journal(lab.file))
