"""The lab file: a labgrid environment with one more key, ``pinet``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_pinet.config.lab_path import FOLDER, OWN_FOLDER, is_name, lab_path, packaged_labs
from pytest_pinet.config.labgrid_keys import check_labgrid_keys, parts_of, unset_variables
from pytest_pinet.config.resolve import check_addresses, read_hardware, resolve_limits, resolve_node
from pytest_pinet.config.schema import LABGRID_KEYS, LabOfFile
from pytest_pinet.config.section import keys_of, read_text, validated
from pytest_pinet.config.switches import read_switches
from pytest_pinet.config.yaml_lines import Document, parse
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import nearest, shown, unknown
from pytest_pinet.model.fields import MOST_MBPS
from pytest_pinet.model.hardware import Hardware
from pytest_pinet.model.lab import EXACT, EXACT_MACHINES, MACHINES, Interface, Lab, Names, Node, PortRef, Uplink
from pytest_pinet.model.quantities import Bitrate

WHAT = "a lab file (a labgrid environment with a 'pinet' key)"


def load(path: str | Path, in_use: bool = True) -> LabOfFile:
    """Read, check and resolve a lab file; ``path`` can also be the name of a packaged lab.

    ``in_use``: see ``resolve``. Raises ConfigError: one sentence with the path as it was given, the line, the offending
    value and what is accepted.
    """
    return resolve(_text(str(path)), str(path), in_use)


def resolve(text: str, path: str, in_use: bool = False) -> LabOfFile:
    """Check and resolve the text of a lab file. ``path`` is for messages, and for paths in the file.

    ``in_use``: the variables of templates must be set, except variables that the launcher sets. A command that uses no
    board needs none of their values, which are often secrets.
    """
    document = parse(text, path)
    data = _top_level(document)
    lab = _build(data["pinet"], _targets(data, document), document)
    if in_use:
        refuse_exact_boards(lab)
    # The machine that pytest runs on has no target.
    used = [node.target for node in lab.nodes.values() if not node.runner]
    check_labgrid_keys(document, used, all_set=in_use and lab.launcher is None)
    return replace(lab, unset=unset_variables(document)) if lab.launcher is None else lab


def refuse_exact_boards(lab: Lab) -> None:
    """Raise ConfigError if a lab has exact boards, which nothing but an exact gate can use."""
    for node in lab.nodes.values():
        if node.clock == EXACT:
            message = f"node '{node.name}' is an exact board (clock: {EXACT}), which only an exact gate boots: "
            raise ConfigError(f"{message}pinet gate --exact --lab {lab.file} BUILD", node.where)


def _text(lab: str) -> str:
    path = lab_path(lab)
    # As it is named in a checkout.
    if path.parent == Path("lab") and path.stem in packaged_labs() and not path.exists():
        message = f"this file does not exist; '{path.stem}' without folder and suffix names the lab that is packaged"
        raise ConfigError(message, Where(lab))
    return read_text(path, WHAT, "`pinet init` writes one for your boards, and `pinet demo` needs none")


def _top_level(document: Document) -> dict[str, object]:
    data = keys_of(document, WHAT)
    accepted = ["pinet", *LABGRID_KEYS]
    for key in data:
        if key not in accepted and not key.startswith("x-"):
            raise ConfigError(unknown("key", key, accepted), document.key((key,)))
    if "pinet" not in data:
        near = nearest("pinet", data)
        hint = f"; did you mean '{near}'?" if near else ""
        raise ConfigError(f"the key 'pinet' is missing{hint}; expected {WHAT}", document.key(()))
    return data


def _targets(data: dict[str, object], document: Document) -> dict[str, object] | None:
    """Return labgrid's targets by name, or None if the file has none."""
    targets = data.get("targets")
    if targets is None:
        return None
    if not isinstance(targets, dict):
        raise ConfigError(f"targets: expected a mapping, got {shown(targets)}", document.value(("targets",)))
    for name, target in targets.items():
        if not isinstance(target, dict):
            message = f"targets.{name}: expected a mapping with resources and drivers, got {shown(target)}"
            raise ConfigError(message, document.value(("targets", name)))
    return targets


def _uplink(name: str, uplink: Uplink, document: Document) -> Uplink:
    """Resolve one uplink, whose ports must be on two switches of this lab."""
    path = ("pinet", "uplinks", name)
    first, second = uplink.ports
    if first.switch == second.switch:
        message = f"uplink '{name}' has both ends on switch {first.switch}; expected ports of two switches"
        raise ConfigError(message, document.value((*path, "ports")))
    if uplink.speed_mbps != round(uplink.speed_mbps) or not 1 <= uplink.speed_mbps <= MOST_MBPS:
        speed = Bitrate.mbps(uplink.speed_mbps)
        message = f"uplink '{name}': {speed} is not a link speed; expected a value such as '1 Gbit/s'"
        raise ConfigError(message, document.value((*path, "speed")))
    speed_mbps = round(uplink.speed_mbps)
    return replace(uplink, name=name, place=uplink.place or name, speed_mbps=speed_mbps, where=document.key(path))


def _build(pinet: object, targets: Mapping[str, object] | None, document: Document) -> LabOfFile:
    """Read the key ``pinet``, whose values name each other, and check what they have in common.

    ``targets`` is labgrid's key of that name.
    """
    given = pinet if isinstance(pinet, dict) else {}
    hardware = read_hardware(given, document)
    switches = read_switches(given, document)
    names = Names(hardware.boards, hardware.nics, switches)
    lab = validated(LabOfFile, _with_hardware(pinet, hardware), document, ("pinet",), names)
    if not lab.nodes:
        raise ConfigError("this lab has no nodes; expected at least one", document.key(("pinet", "nodes")))
    nodes = {name: resolve_node(name, node, hardware, document) for name, node in lab.nodes.items()}
    uplinks = {name: _uplink(name, uplink, document) for name, uplink in lab.uplinks.items()}
    _check_targets(nodes.values(), targets, document)
    _check_ports([i for node in nodes.values() for i in node.interfaces], uplinks.values())
    check_addresses(nodes.values(), document)
    _check_places(nodes, uplinks.values(), document)
    _check_exact(lab, document)
    _check_outlets(lab, document)
    _check_runner(lab, document)
    if lab.scale != 1 and lab.launcher is None:
        message = "key 'scale' needs a launcher, which runs links at a share of their rate; this lab has no launcher"
        raise ConfigError(message, document.key(("pinet", "scale")))
    emulated = next((node.name for node in nodes.values() if node.is_emulated), None)
    if lab.scale != 1 and emulated is not None:
        message = (
            f"key 'scale' does not support emulated nodes such as '{emulated}': the launcher does not shape their links"
        )
        raise ConfigError(message, document.key(("pinet", "scale")))
    has_coordinator = lab.launcher is not None or uses_coordinator(nodes.values(), targets or {}, document)
    if uplinks and not has_coordinator:
        message = (
            "uplinks need a labgrid coordinator, which leases their places; no target of this lab has a RemotePlace"
        )
        raise ConfigError(message, document.key(("pinet", "uplinks")))
    packaged = is_name(document.file)
    folder = OWN_FOLDER if packaged else Path(document.file).parent
    calibration = given.get("calibration") or f"{Path(document.file).stem}.calibration.yaml"
    # Reviewed files are no part of .pinet/, which is in no repository.
    baselines = Path("baselines", document.file) if packaged else folder / (given.get("baselines") or "baselines")
    return replace(
        lab,
        name=lab.name or Path(document.file).stem,
        file=document.file,
        nodes=nodes,
        switches=switches,
        limits=resolve_limits(lab.limit_sections, list(nodes.values()), hardware, document),
        # A lab with a launcher is no hardware, unless the lab file says that it is.
        figures=given.get("figures") or ("measured" if lab.launcher is None else "emulated"),
        domains={
            name: _members(members, nodes, document, ("pinet", "domains", name))
            for name, members in lab.domains.items()
        },
        uplinks=uplinks,
        traffic_tool=lab.traffic_tool or Lab.traffic_tool,
        http_tool=lab.http_tool or Lab.http_tool,
        has_coordinator=has_coordinator,
        baselines=baselines,
        baselines_where=None if given.get("baselines") is None else document.value(("pinet", "baselines")),
        calibration=folder / calibration,
        commits=lab.commits or "",
        packaged_calibration=FOLDER / calibration if packaged else None,
    )


def _with_hardware(pinet: object, hardware: Hardware) -> object:
    """Return the section with its own boards and NICs as they are after the catalogue completed them."""
    if not isinstance(pinet, dict):
        return pinet
    known = {"boards": hardware.boards, "nics": hardware.nics}
    return pinet | {key: {name: known[key][name] for name in pinet[key]} for key in known if key in pinet}


def _check_targets(nodes: Iterable[Node], targets: Mapping[str, object] | None, document: Document) -> None:
    places: dict[str, Node] = {}
    roles: dict[str, Node] = {}
    for node in nodes:
        path = ("pinet", "nodes", node.name)
        if targets is not None and node.target not in targets and not node.runner:
            message = f"node '{node.name}' has no target in the labgrid part of the file: "
            raise ConfigError(message + unknown("target", node.target, targets), document.value((*path, "target")))
        for kind, name, taken in (("place", node.place, places), ("target", node.target, roles)):
            other = taken.setdefault(name, node)
            if other is not node:
                both = f"nodes '{other.name}' (line {other.where.line}) and '{node.name}'"
                raise ConfigError(f"{both} share the {kind} '{name}'", document.value((*path, kind)))


def _check_runner(lab: Lab, document: Document) -> None:
    runners = [name for name, node in lab.nodes.items() if node.runner]
    if len(runners) > 1:
        both = f"nodes '{runners[0]}' and '{runners[1]}' both have 'runner: true'"
        message = f"{both}, but only one node can be the machine that pytest runs on"
        raise ConfigError(message, document.value(("pinet", "nodes", runners[1], "runner")))
    declared = next((name for name in runners if lab.nodes[name].management is not None), None)
    if declared is not None:
        message = (
            f"node '{declared}' is the machine that pytest runs on (key 'runner'), so it needs no key 'management'"
        )
        raise ConfigError(message, document.value(("pinet", "nodes", declared, "management")))
    if runners and lab.launcher is not None:
        own = f"node '{runners[0]}' is the machine that pytest runs on (key 'runner')"
        message = f"{own}; launcher '{lab.launcher}' cannot connect it: remove the node, or its key 'runner'"
        raise ConfigError(message, document.value(("pinet", "nodes", runners[0], "runner")))


def _check_ports(interfaces: Iterable[Interface], uplinks: Iterable[Uplink]) -> None:
    ends: list[tuple[PortRef, Interface | Uplink, str]] = [(i.port, i, str(i)) for i in interfaces]
    ends += [(port, uplink, f"uplink '{uplink.name}'") for uplink in uplinks for port in uplink.ports]
    taken: dict[PortRef, tuple[Interface | Uplink, str]] = {}
    for port, owner, name in ends:
        other, other_name = taken.setdefault(port, (owner, name))
        if other is not owner:
            message = f"{other_name} (line {other.where.line}) and {name} are both cabled to port {port}"
            raise ConfigError(message, owner.where)


def _check_places(nodes: Mapping[str, Node], uplinks: Iterable[Uplink], document: Document) -> None:
    taken = {node.place: f"node '{node.name}'" for node in nodes.values()}
    for uplink in uplinks:
        other = taken.setdefault(uplink.place, f"uplink '{uplink.name}'")
        if other != f"uplink '{uplink.name}'":
            message = f"{other} and uplink '{uplink.name}' share the place '{uplink.place}'"
            raise ConfigError(message, document.key(("pinet", "uplinks", uplink.name)))


def _check_outlets(lab: Lab, document: Document) -> None:
    for name, node in lab.nodes.items():
        # An exact gate boots an exact board by itself.
        for key in ("outlet", "user") if node.clock == EXACT else ("outlet", "machine", "user"):
            if getattr(node, key) is not None and lab.launcher is None:
                message = f"node '{name}' has the key '{key}', which needs a launcher; this lab has no launcher"
                raise ConfigError(message, document.key(("pinet", "nodes", name, key)))
        if node.user is not None and not node.is_emulated:
            message = f"node '{name}' has the key 'user', which needs an emulated board; add machine: {MACHINES[1]}"
            raise ConfigError(message, document.key(("pinet", "nodes", name, "user")))
        if node.manager is not None and not node.is_emulated:
            message = (
                f"node '{name}' has the key 'manager', which needs an emulated board; "
                f"add the key 'machine' with one of: {', '.join(MACHINES[1:])}"
            )
            raise ConfigError(message, document.key(("pinet", "nodes", name, "manager")))


def _check_exact(lab: Lab, document: Document) -> None:
    """Check that exact boards are in a lab of their own: no launcher starts them, and no other node reaches them."""
    exact = [name for name, node in lab.nodes.items() if node.clock == EXACT]
    for name, node in lab.nodes.items():
        path = ("pinet", "nodes", name)
        if exact and node.clock != EXACT:
            message = (
                f"node '{exact[0]}' is an exact board (clock: {EXACT}), but node '{name}' is not; use two lab files"
            )
            raise ConfigError(message, document.key(path))
        if node.machine in EXACT_MACHINES and node.clock != EXACT:
            message = f"node '{name}': machine {node.machine} exists only as an exact board; add clock: {EXACT}"
            raise ConfigError(message, document.value((*path, "machine")))
    if exact and lab.launcher is not None:
        message = f"no launcher starts exact boards such as '{exact[0]}' (clock: {EXACT}); remove the key 'launcher'"
        raise ConfigError(message, document.value(("pinet", "launcher")))


def _members(
    patterns: Iterable[str], nodes: Mapping[str, Node], document: Document, path: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the nodes of a contention domain, in the order of the file."""
    wanted = list(patterns)
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in nodes):
            raise ConfigError(unknown("node", pattern, nodes, ".".join(path)), document.value(path))
    return tuple(name for name in nodes if any(fnmatchcase(name, pattern) for pattern in wanted))


_REMOTE = "RemotePlace"


def uses_coordinator(nodes: Iterable[Node], targets: Mapping[str, object], document: Document) -> bool:
    """Return whether a coordinator leases the nodes. Raises ConfigError if it leases only some of them."""
    options = document.data.get("options") if isinstance(document.data, dict) else None
    if isinstance(options, dict) and "coordinator_address" in options:
        return True
    remote: dict[bool, Node] = {}
    for node in nodes:
        # The machine that pytest runs on has no target.
        if node.target in targets and not node.runner:
            classes = {part.cls for part in parts_of(node.target, "resources", document)}
            remote.setdefault(_REMOTE in classes, node)
    if len(remote) == 2:
        message = (
            f"the target of node '{remote[True].name}' has a {_REMOTE}, and that of node '{remote[False].name}' has "
            "none; expected all nodes of a lab at a labgrid coordinator, or none: use two lab files"
        )
        raise ConfigError(message, document.key(("targets", remote[False].target)))
    return False not in remote
