"""A switch controlled through its command line over ssh. Many switches allow no writes over SNMP.

The commands of each family are data (``catalogue/switch_families``). The configuration is never saved: after a restart,
the switch has the configuration of its admin, and tests do not wear out its flash. RouterOS is different: it saves each
change at once. After a crash, the journal and ``pinet lab restore`` restore the ports.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from pytest_pinet.config.switches import timeout
from pytest_pinet.errors import ConfigError, SwitchError, mistake_in
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.lab.switch import cli_family
from pytest_pinet.lab.switch.cli_family import COUNTERS, Family
from pytest_pinet.lab.switch.cli_session import CliSession, RefusedError
from pytest_pinet.lab.switch.switchport import About, Capability, Neighbour, PortCounters, PortState, neighbours_by_port
from pytest_pinet.model.forms import ssh_address
from pytest_pinet.model.lab import Switch

TIMEOUT_S = 20.0
# All switches have VLAN 1, and most refuse to create it.
_FIRST_VLAN = 1
# Whether a switch of a family has these capabilities depends on the model and on its configuration.
_OPTIONAL = {Capability.POE: "poe", Capability.LLDP: "lldp"}
_SPEED = re.compile(r"(?:a-)?(?P<number>\d{1,9}(?!\d)(?:\.\d+)?) ?(?P<unit>[GMkgm]?)", re.ASCII)
_FACTOR = {"": 1.0, "m": 1.0, "g": 1000.0, "k": 0.001}
_GROUPING = re.compile(r"[\s,.']")
_SEPARATORS = re.compile(r"[-.: ]")
_MAC = re.compile(r"[0-9a-f]{12}")
_PORT = re.compile(r"(?P<kind>\D*?)[ ]?(?P<number>\d.*)")


@dataclass
class PortFacts:
    """The facts of one port: the first text of each group, and all matches for facts that can occur more than once."""

    first: dict[str, str] = field(default_factory=dict)
    matches: list[dict[str, str]] = field(default_factory=list)


def find(patterns: Iterable[str], answer: str, ports: Sequence[str], into: dict[str, PortFacts]) -> None:
    """Search an answer that covers ``ports`` for all patterns. A match without a group ``port`` is for each port."""
    for pattern in patterns:
        for match in re.finditer(pattern, answer, re.MULTILINE):
            groups = {name: text.strip() for name, text in match.groupdict().items() if text is not None}
            shown = groups.pop("port", None)
            for port in ports:
                if shown is None or same_port(port, shown):
                    facts = into[port]
                    facts.matches.append(groups)
                    for name, text in groups.items():
                        facts.first.setdefault(name, text)


def same_port(one: str, other: str) -> bool:
    """Whether two names mean one port: ``Gi1/0/1``, ``gigabitethernet 1/0/1`` and ``GigabitEthernet1/0/1`` do."""
    if one.casefold() == other.casefold():
        return True
    first, second = _PORT.fullmatch(one.casefold()), _PORT.fullmatch(other.casefold())
    if first is None or second is None or first["number"] != second["number"]:
        return False
    kinds = sorted((first["kind"], second["kind"]), key=len)
    return bool(kinds[0]) and kinds[1].startswith(kinds[0])


def speed_mbps(text: str | None) -> int | None:
    """Return the Mbit/s of ``1000``, ``a-100``, ``1000M``, ``10G``, ``2.5Gbps`` or ``10Gb/s``; None for ``auto``."""
    match = _SPEED.match(text or "")
    return round(float(match["number"]) * _FACTOR[match["unit"].lower()]) if match else None


def count(text: str | None) -> int | None:
    """Return a counter, with or without digit grouping (``3,855,627`` or ``3 855 627``); None if there is no number."""
    digits = _GROUPING.sub("", text or "")
    return int(digits) if is_count(digits) else None


def mac(text: str | None) -> str | None:
    """Return a MAC address in lower case with colons, from any notation; None if the text is no MAC address."""
    digits = _SEPARATORS.sub("", (text or "").lower())
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2)) if _MAC.fullmatch(digits) else None


class Session(Protocol):
    """A session that executes commands. It raises SwitchError, and RefusedError when the switch refuses a command."""

    def ask(self, command: str) -> str:
        """Return the answer to a command that changes nothing."""

    def change(self, commands: Iterable[str]) -> None:
        """Send commands that set something, in this order. They may be sent twice."""

    def close(self) -> None:
        """Log out."""


class CliSwitch:
    """One switch of a family."""

    def __init__(self, switch: Switch, family: Family, session: Session) -> None:
        self._switch = switch
        self._family = family
        self._session = session

    @property
    def about(self) -> About:
        family = self._family
        return About(family.title, tuple(family.tested_on), tuple(family.sources))

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the family, except what this switch refuses to show."""
        lacking = set()
        for capability, kind in _OPTIONAL.items():
            if capability in self._family.capabilities:
                try:
                    self._facts((kind,), self._switch.ports[:1])
                except RefusedError:
                    lacking.add(capability)
        return self._family.capabilities - lacking

    def states(self, ports: Iterable[str]) -> Mapping[str, PortState]:
        """Return the current states of these ports; if the family has a command for all ports, it is sent once."""
        wanted = list(ports)
        kinds = ("link", "vlan", "poe") if Capability.POE in self.capabilities else ("link", "vlan")
        facts = self._facts(kinds, wanted)
        for port in wanted:
            if not facts[port].first:
                raise SwitchError(
                    f"switch {self._switch.name} shows no port {port}: its answers to "
                    f"{self._commands(kinds, port)} do not contain this port",
                    f"correct the ports of {self._switch.name} in {self._switch.where}",
                )
        return {port: _state(facts[port].first) for port in wanted}

    def configure(self, changes: Mapping[str, PortState]) -> None:
        """Configure all ports in one configuration session."""
        moved = {port: state.vlan for port, state in changes.items() if state.vlan is not None}
        before = self._vlans(moved)
        templates = self._family.set
        making: list[str] = []
        for vlan in sorted({vlan for port, vlan in moved.items() if vlan not in (before[port], _FIRST_VLAN)}):
            making += _filled(templates.make_vlan, vlan=vlan)
        setting: list[str] = []
        for port, state in changes.items():
            spelled = self._family.spelled(port)
            if state.vlan is not None and state.vlan != before[port]:
                setting += _filled(templates.vlan, port=spelled, vlan=state.vlan, old=before[port])
            if state.poe is not None:
                setting += _filled(templates.poe_on if state.poe else templates.poe_off, port=spelled)
            if state.admin_up is not None:
                setting += _filled(templates.up if state.admin_up else templates.down, port=spelled)
        if self._family.vlan_database is None:
            commands = self._family.config.around([*making, *setting])
        else:
            commands = [*self._family.vlan_database.around(making), *self._family.config.around(setting)]
        self._session.change(commands)

    def remove_vlan(self, vlan: int) -> None:
        mode = self._family.vlan_database or self._family.config
        self._session.change(mode.around(_filled(self._family.set.remove_vlan, vlan=vlan)))

    def counters(self, ports: Iterable[str]) -> Mapping[str, PortCounters]:
        """Return the counters of these ports; each has the time at which its own answer arrived."""
        result = {}
        for port in list(ports):
            first = self._facts(("counters",), [port])[port].first
            rx, tx, rx_errors, tx_errors, rx_discards, tx_discards = (count(first.get(name)) for name in COUNTERS)
            if rx is None or tx is None:
                raise SwitchError(
                    f"switch {self._switch.name} shows no byte counters of port {port} in its answer to "
                    f"{self._commands(('counters',), port)}",
                    "this firmware uses another output format: describe the format in your own switch family, and name "
                    "the file in `families:` of the lab file",
                )
            result[port] = PortCounters(
                time.monotonic(), rx, tx, rx_errors, tx_errors, rx_discards, tx_discards, first.get("epoch")
            )
        return result

    def neighbours(self, ports: Iterable[str]) -> Mapping[str, frozenset[Neighbour]]:
        """Return the neighbours of these ports, from LLDP and from learned MAC addresses."""
        wanted = list(ports)
        found: list[tuple[str, Neighbour]] = []
        for capability, kind in ((Capability.LLDP, "lldp"), (Capability.FDB, "fdb")):
            if capability not in self.capabilities:
                continue
            for port, facts in self._facts((kind,), wanted).items():
                for match in facts.matches:
                    address, system, remote = mac(match.get("mac")), match.get("system"), match.get("remote_port")
                    if address or system:
                        found.append((port, Neighbour(capability, address, system or None, remote or None)))
        return neighbours_by_port(wanted, found)

    def close(self) -> None:
        self._session.close()

    def _facts(self, kinds: Iterable[str], ports: Iterable[str]) -> dict[str, PortFacts]:
        """Send the commands for these kinds of facts, each command once; return the facts by port."""
        wanted = list(ports)
        facts = {port: PortFacts() for port in wanted}
        if not wanted:
            return facts
        answers: dict[str, str] = {}
        for kind in kinds:
            for question in self._family.questions(kind):
                for covered in [[port] for port in wanted] if question.per_port else [wanted]:
                    command = question.command.format(port=self._family.spelled(covered[0]))
                    if command not in answers:
                        answers[command] = self._session.ask(command)
                    find(question.find, answers[command], covered, facts)
        return facts

    def _vlans(self, ports: Iterable[str]) -> dict[str, int]:
        """Return the access VLANs of these ports. Raises SwitchError for a port that has none."""
        wanted = list(ports)
        facts = self._facts(("vlan",), wanted)
        result = {}
        for port in wanted:
            vlan = count(facts[port].first.get("vlan"))
            if vlan is None:
                raise SwitchError(
                    f"switch {self._switch.name} shows no access VLAN of port {port} in its answer to "
                    f"{self._commands(('vlan',), port)}. pinet changes only access ports, and left this one as it is",
                    "the lab's admin: make it an access port of one VLAN again, then run: pinet lab restore",
                )
            result[port] = vlan
        return result

    def _commands(self, kinds: Iterable[str], port: str) -> str:
        commands = [question.command for kind in kinds for question in self._family.questions(kind)]
        return " and ".join(f"'{command.format(port=self._family.spelled(port))}'" for command in commands)


def _filled(templates: list[str] | None, **values: object) -> list[str]:
    return [template.format(**values) for template in templates or ()]


def _state(found: Mapping[str, str]) -> PortState:
    carrier = _either(found, "carrier", "no_carrier")
    # Without a link, some families show the configured or the maximum speed.
    negotiated = found if carrier is not False else {}
    full = _either(negotiated, "full", "half")
    return PortState(
        admin_up=_either(found, "up", "down"),
        carrier=carrier,
        speed_mbps=speed_mbps(negotiated.get("speed")),
        duplex=None if full is None else "full" if full else "half",
        vlan=count(found.get("vlan")),
        poe=_either(found, "poe_on", "poe_off"),
    )


def _either(found: Mapping[str, str], yes: str, no: str) -> bool | None:
    return True if yes in found else False if no in found else None


def connect(switch: Switch, settings: Mapping[str, str]) -> CliSwitch:
    """Log in to a switch and return it.

    Settings: ``family``, ``address`` (``ssh://user@host:port``), ``username`` (default: the user in the address),
    ``password``, ``secret`` (of the enable mode), ``keyfile``, ``families`` (a YAML file with the user's own families,
    its path relative to the lab file), ``timeout`` (of the login and of each command, default 20 s).
    """
    family_name, address = settings.get("family"), settings.get("address")
    if not family_name or not address:
        raise ConfigError(f"switch {switch.name!r} with backend 'cli' needs `family:` and `address:`", switch.where)
    own = settings.get("families")
    own = None if own is None else str(Path(switch.where.file).parent / Path(own).expanduser())
    family = cli_family.load(family_name, switch.where, own)
    with mistake_in(f"switch {switch.name!r}, address", switch.where):
        found = ssh_address(address)
    username = settings.get("username") or found.user
    if not username:
        raise ConfigError(
            f"switch {switch.name!r}: expected `address: ssh://user@host:port`, got {address!r}", switch.where
        )
    with mistake_in(f"switch {switch.name!r}, timeout", switch.where):
        timeout_s = timeout(settings["timeout"]) if "timeout" in settings else TIMEOUT_S
    login = {
        "host": found.host,
        "port": found.port or 22,
        "username": username,
        "password": settings.get("password", ""),
        "secret": settings.get("secret", ""),
        "key_file": settings.get("keyfile"),
    }
    session = CliSession(switch.name, family, login, timeout_s, switch.where)
    session.open()
    return CliSwitch(switch, family, session)
