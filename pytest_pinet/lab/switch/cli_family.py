"""Switch families: the schema of their YAML entries, the plugin's own families, and the families of a user's file."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import Formatter
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from pytest_pinet.catalogue.load import built_in, folder
from pytest_pinet.config import yaml_lines
from pytest_pinet.config.section import first_error, read_text
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import quoted, shown, unknown
from pytest_pinet.lab.switch.switchport import Capability
from pytest_pinet.model.forms import PORT

# The groups that patterns may have, by kind of fact. For pairs such as `up` and `down`, the matching group is the
# value.
COUNTERS = ("rx_octets", "tx_octets", "rx_errors", "tx_errors", "rx_discards", "tx_discards")
GROUPS: dict[str, tuple[str, ...]] = {
    "link": ("up", "down", "carrier", "no_carrier", "speed", "full", "half"),
    "vlan": ("vlan",),
    "counters": (*COUNTERS, "epoch"),
    "poe": ("poe_on", "poe_off"),
    "lldp": ("mac", "system", "remote_port"),
    "fdb": ("mac",),
}
_LIKE = "like"
_NEEDED = {
    "vlan": ("vlan",),
    "counters": ("rx_octets", "tx_octets"),
    "poe": ("poe_on", "poe_off"),
    "fdb": ("mac",),
}


def _line(text: str) -> str:
    if not text.strip() or any(not c.isprintable() for c in text):
        raise ValueError(f"expected one command, got {quoted(text)}")
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"{quoted(text)} is not a regular expression: {error}") from None
    return text


def _placeholders(command: str, accepted: tuple[str, ...]) -> set[str]:
    try:
        names = {name for _, name, _, _ in Formatter().parse(command) if name is not None}
    except ValueError as error:
        raise ValueError(f"{quoted(command)}: {error}; write each brace of the command itself twice") from None
    for name in sorted(names - set(accepted)):
        raise ValueError(f"{quoted(command)}: " + unknown("placeholder", f"{{{name}}}", [f"{{{a}}}" for a in accepted]))
    return names


def _holding(accepted: tuple[str, ...], needed: tuple[str, ...]) -> Callable[[list[str]], list[str]]:
    """Return a check of the placeholders in a list of commands; an empty list means that nothing is to be sent."""

    def check(commands: list[str]) -> list[str]:
        used: set[str] = set()
        for command in commands:
            used |= _placeholders(command, accepted)
        for name in needed:
            if commands and name not in used:
                raise ValueError(f"the placeholder {{{name}}} is missing in {quoted('; '.join(commands))}")
        return commands

    return check


Line = Annotated[str, AfterValidator(_line)]
Pattern = Annotated[str, AfterValidator(_pattern)]
OfPort = Annotated[list[Line], AfterValidator(_holding(("port",), ("port",)))]
OfVlan = Annotated[list[Line], AfterValidator(_holding(("vlan",), ("vlan",)))]
PortAndVlan = Annotated[list[Line], AfterValidator(_holding(("port", "vlan", "old"), ("port", "vlan")))]
Plain = Annotated[list[Line], AfterValidator(_holding((), ()))]


class FamilyEntry(BaseModel):
    """The settings of all parts of a family entry."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Question(FamilyEntry):
    """A command that shows something, and patterns for its answer; the named groups of ``find`` are the facts.

    A command with ``{port}`` is sent for each port. The answer to any other command covers many ports, and each match
    has a group ``port``.
    """

    command: Line
    find: list[Pattern] = Field(min_length=1)

    @property
    def per_port(self) -> bool:
        return "{port}" in self.command


def _asking(kind: str) -> AfterValidator:
    """Return a check of the questions of one kind: only known groups, and all groups that are necessary."""

    def check(questions: list[Question]) -> list[Question]:
        found: set[str] = set()
        for question in questions:
            per_port = "port" in _placeholders(question.command, ("port",))
            for pattern in question.find:
                groups = set(re.compile(pattern).groupindex)
                for group in sorted(groups - {"port", *GROUPS[kind]}):
                    raise ValueError(f"{quoted(pattern)}: " + unknown("group", group, ("port", *GROUPS[kind])))
                if not per_port and "port" not in groups:
                    raise ValueError(
                        f"{quoted(pattern)} needs a group 'port', since {quoted(question.command)} has no {{port}}"
                    )
                found |= groups
        for group in _NEEDED.get(kind, ()):
            if group not in found:
                raise ValueError(f"no pattern has the group '{group}'")
        return questions

    return AfterValidator(check)


class Shown(FamilyEntry):
    """The questions for each kind of fact."""

    link: Annotated[list[Question], _asking("link")] | None = None
    vlan: Annotated[list[Question], _asking("vlan")] | None = None
    counters: Annotated[list[Question], _asking("counters")] | None = None
    poe: Annotated[list[Question], _asking("poe")] | None = None
    lldp: Annotated[list[Question], _asking("lldp")] | None = None
    fdb: Annotated[list[Question], _asking("fdb")] | None = None


class SettingCommands(FamilyEntry):
    """The commands for each setting; ``{old}`` is the previous access VLAN of the port."""

    up: OfPort | None = None
    down: OfPort | None = None
    vlan: PortAndVlan | None = None
    make_vlan: OfVlan | None = None
    remove_vlan: OfVlan | None = None
    poe_on: OfPort | None = None
    poe_off: OfPort | None = None

    @model_validator(mode="after")
    def _in_pairs(self) -> SettingCommands:
        for one, other in (("up", "down"), ("poe_on", "poe_off"), ("vlan", "remove_vlan")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                lacking = other if getattr(self, other) is None else one
                raise ValueError(f"'{lacking}' is missing; expected both '{one}' and '{other}'")
        return self


class Mode(FamilyEntry):
    """A mode that accepts commands: how to enter and how to leave it."""

    enter: Plain
    leave: Plain

    def around(self, commands: list[str]) -> list[str]:
        """Return the commands with those to enter and leave the mode; nothing for no commands."""
        return [*self.enter, *commands, *self.leave] if commands else []


NOTHING = Mode(enter=[], leave=[])


class Family(FamilyEntry):
    """One family of switches. ``device_type`` is netmiko's name for the login procedure and the prompt.

    ``tested_on`` lists the software of the vendor on which it ran; without an entry, the family counts as untested.
    ``sources`` is what else its commands and patterns were checked against.

    ``config`` is the configuration mode. ``vlan_database`` is the mode in which VLANs are created and removed, if that
    is another mode.
    """

    title: Line
    device_type: Line
    sources: list[Line] = []
    tested_on: list[Line] = []
    spell: dict[Pattern, str] = {}
    refused: list[Pattern] = Field(min_length=1)
    harmless: list[Pattern] = []
    config: Mode = NOTHING
    vlan_database: Mode | None = None
    show: Shown
    set: SettingCommands = SettingCommands()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of this family. A setting must also be shown, because every setting is read back."""
        show, commands = self.show, self.set
        groups = {g for q in show.link or () for p in q.find for g in re.compile(p).groupindex}
        has = {
            Capability.LINK: bool(show.link),
            Capability.ADMIN: {"up", "down"} <= groups and commands.up is not None,
            Capability.VLAN: bool(show.vlan) and commands.vlan is not None,
            Capability.COUNTERS: bool(show.counters),
            Capability.POE: bool(show.poe) and commands.poe_on is not None,
            Capability.LLDP: bool(show.lldp),
            Capability.FDB: bool(show.fdb),
        }
        return frozenset(capability for capability, there in has.items() if there)

    def questions(self, kind: str) -> list[Question]:
        """Return the questions for one kind of fact (a key of ``show``)."""
        return getattr(self.show, kind) or []

    def spelled(self, port: str) -> str:
        """Return a port's name as the commands spell it. Raises ConfigError if it is no name of a port.

        Some switches run a command line in a Linux shell.
        """
        if not PORT.pattern.fullmatch(port):
            raise ConfigError(f"expected {PORT.text}, got {shown(port)}")
        for pattern, replacement in self.spell.items():
            port = re.sub(pattern, replacement, port)
        return port

    def refusal(self, answer: str) -> str | None:
        """Return the line with which an answer refuses its command, or None."""
        for pattern in self.refused:
            for match in re.finditer(pattern, answer, re.MULTILINE):
                begin = answer.rfind("\n", 0, match.start()) + 1
                end = answer.find("\n", match.end())
                line = answer[begin : end if end >= 0 else None].strip()
                if not any(re.search(harmless, line) for harmless in self.harmless):
                    return line
        return None


def merged(base: dict[str, object], own: dict[str, object]) -> dict[str, object]:
    """Merge a family with the one it is ``like``: its own keys win, mappings are merged key by key."""
    result = dict(base)
    for key, value in own.items():
        there = result.get(key)
        result[key] = merged(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return result


def load(name: str, where: Where, own_file: str | None = None) -> Family:
    """Return the family of this name; ``where`` is the place that names it. Raises ConfigError.

    ``own_file`` is a user's YAML file, a mapping of names to families, which comes first. ``like: NAME`` in an entry
    copies another family, own or built in; the keys of the entry override the copy.
    """
    own = None if own_file is None else yaml_lines.parse(read_text(own_file, "a file with switch families"), own_file)
    families: dict[str, object] = {} if own is None else _entries(own)
    if name not in families and name not in built_in():
        raise ConfigError(unknown("switch family", name, [*families, *built_in()]), where)
    document, data = _expanded(name, own, families, [])
    try:
        return Family.model_validate(data)
    except ValidationError as error:
        raise first_error(error, Family, document, (name,)) from None


def _entries(document: Document) -> dict[str, object]:
    if not isinstance(document.data, dict):
        raise ConfigError("expected a mapping of names to switch families", Where(document.file, 1))
    return document.data


def _expanded(name: str, own: Document | None, families: dict[str, object], seen: list[str]) -> tuple[Document, object]:
    """Return the data of a family, with ``like`` resolved, and the document that contains the family."""
    if own is not None and name in families and name not in seen:
        document, data = own, families[name]
    else:
        # Not in the user's file, or it is there and is like the built-in family of the same name.
        document = yaml_lines.parse(folder().joinpath(f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")
        data = _entries(document)[name]
    if not isinstance(data, dict) or _LIKE not in data:
        return document, data
    like, chain = data[_LIKE], [*seen, name]
    if not isinstance(like, str) or like not in {*families, *built_in()} or (like in chain and like not in built_in()):
        where = document.value((name, _LIKE))
        if isinstance(like, str) and like in chain:
            circle = " -> ".join([*chain[chain.index(like) :], like])
            why = f"these switch families are like each other: {circle}"
            raise ConfigError(f"{why}; in one of them, replace `like:` by its own keys", where)
        raise ConfigError(unknown("switch family", str(like), [*families, *built_in()]), where)
    source, base = _expanded(like, own, families, chain)
    if not isinstance(base, dict):
        raise ConfigError(f"{like}: expected a mapping, got {shown(base)}", source.value((like,)))
    return document, merged(base, {key: value for key, value in data.items() if key != _LIKE})
