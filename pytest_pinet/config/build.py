"""From the checked sections to the Lab: names resolved, and what must be unique checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path as FilePath

from pytest_pinet.config.hardware import resolve_hardware
from pytest_pinet.config.limits import resolve_limits
from pytest_pinet.config.names import unknown
from pytest_pinet.config.nodes import resolve_node
from pytest_pinet.config.schema import PinetSection
from pytest_pinet.config.switches import resolve_switch
from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.lab import Interface, Lab, Node, PortRef


def build(section: PinetSection, targets: Mapping[str, object] | None, document: Document) -> Lab:
    """Resolve a whole lab file; ``targets`` is labgrid's key of that name. Raises ConfigError."""
    hardware = resolve_hardware(section, document)
    switches = {name: resolve_switch(name, own, document) for name, own in section.switches.items()}
    if not section.nodes:
        raise ConfigError("this lab has no nodes; expected at least one", document.key(("pinet", "nodes")))
    nodes = {name: resolve_node(name, own, hardware, switches, document) for name, own in section.nodes.items()}
    _check_targets(nodes.values(), targets, document)
    _check_ports(interface for node in nodes.values() for interface in node.interfaces)
    return Lab(
        name=section.name or FilePath(document.file).stem,
        file=document.file,
        nodes=nodes,
        switches=switches,
        limits=resolve_limits(section.limits, list(nodes.values()), hardware, document),
        launcher=section.launcher,
        # What somebody's program set up is no hardware, unless he says that it is.
        figures=section.figures or ("measured" if section.launcher is None else "emulated"),
        domains={
            name: _members(members, nodes, document, ("pinet", "domains", name))
            for name, members in section.domains.items()
        },
    )


def _check_targets(nodes: Iterable[Node], targets: Mapping[str, object] | None, document: Document) -> None:
    places: dict[str, Node] = {}
    roles: dict[str, Node] = {}
    for node in nodes:
        path = ("pinet", "nodes", node.name)
        if targets is not None and node.target not in targets:
            message = f"node '{node.name}' has no target in labgrid's half of the file: "
            raise ConfigError(message + unknown("target", node.target, targets), document.value((*path, "target")))
        for kind, name, taken in (("place", node.place, places), ("target", node.target, roles)):
            other = taken.setdefault(name, node)
            if other is not node:
                both = f"nodes '{other.name}' (line {other.where.line}) and '{node.name}'"
                raise ConfigError(f"{both} share the {kind} '{name}'", document.value((*path, kind)))


def _check_ports(interfaces: Iterable[Interface]) -> None:
    taken: dict[PortRef, Interface] = {}
    for interface in interfaces:
        other = taken.setdefault(interface.port, interface)
        if other is not interface:
            first = f"{other} (line {other.where.line})"
            message = f"{first} and {interface} are both cabled to port {interface.port}"
            raise ConfigError(message, interface.where)


def _members(
    patterns: Iterable[str], nodes: Mapping[str, Node], document: Document, path: tuple[str, ...]
) -> tuple[str, ...]:
    """The nodes of a contention domain, in the order of the file."""
    wanted = list(patterns)
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in nodes):
            raise ConfigError(unknown("node", pattern, nodes, ".".join(path)), document.value(path))
    return tuple(name for name in nodes if any(fnmatchcase(name, pattern) for pattern in wanted))
