"""Checks the targets of a lab file against labgrid: known classes, complete arguments, and the strategy of each node.

labgrid itself names a wrong driver only when a board is used, and without the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_pinet.config.file_text import read_text
from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.config.labgrid_keys import Part, parts_of
from pytest_pinet.config.messages import named
from pytest_pinet.config.yaml_lines import Document, parse
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import nearest, quoted
from pytest_pinet.model.lab import EXACT, Lab, Node

OWN_MODULE = "pytest_pinet.lab.drivers"
# Of this module; a lower layer cannot import it.
OWN_DRIVERS = frozenset(
    {"PiSSHDriver", "PiSerialDriver", "PiShellDriver", "PiStrategy", "PoePowerDriver", "SwitchPortDriver"}
)
OWN_STRATEGY = "PiStrategy"


def read_lab(lab: Lab) -> Document:
    """Return the lab's file with its lines. Raises ConfigError."""
    return parse(read_text(lab_path(lab.file), "a lab file"), lab.file)


def check_targets(lab: Lab) -> None:
    """Check the targets of the nodes. The modules of the file must have been imported. Raises ConfigError.

    A file without targets describes a lab for commands that use no board.
    """
    document = read_lab(lab)
    for node in lab.nodes.values():
        # The machine that pytest runs on has no target, and an exact gate boots its board by itself.
        if ("targets",) in document.value_lines and not node.runner and node.clock != EXACT:
            _check_target(node, document)
            if not lab.has_coordinator:
                _check_login(node, document)


def _check_target(node: Node, document: Document) -> None:
    from labgrid.factory import target_factory

    known: Mapping[str, Mapping[str, type]] = {
        "resources": target_factory.resources,
        "drivers": target_factory.drivers,
    }
    for kind, classes in known.items():
        for part in parts_of(node.target, kind, document):
            _check_class(part, kind, classes, document)
            _check_arguments(part, classes[part.cls], document)
    _check_strategy(node, parts_of(node.target, "drivers", document), known["drivers"], document)


def _check_login(node: Node, document: Document) -> None:
    """Check that a target has an ssh driver, as `Targets.way_to` needs it in a lab without a coordinator."""
    from labgrid.driver import SSHDriver
    from labgrid.factory import target_factory

    parts = parts_of(node.target, "drivers", document)
    if not any(issubclass(target_factory.drivers[part.cls], SSHDriver) for part in parts):
        message = (
            f"target '{node.target}' of node '{node.name}' has no ssh driver, which a lab without a coordinator needs: "
            "add `PiSSHDriver: {}`"
        )
        raise ConfigError(message, document.key(("targets", node.target, "drivers")))


def _check_class(part: Part, kind: str, classes: Mapping[str, type], document: Document) -> None:
    from labgrid.factory import target_factory

    where = document.key(part.path)
    modules = document.data.get("imports") or [] if isinstance(document.data, dict) else []
    # A module of the user may import ours.
    if part.cls in OWN_DRIVERS and not modules:
        message = f"{part.cls} needs an import: add `imports: [{OWN_MODULE}]` to this file"
        raise ConfigError(message, where)
    if part.cls in classes:
        return
    if part.cls in {**target_factory.resources, **target_factory.drivers}:
        other = "drivers" if kind == "resources" else "resources"
        message = f"{part.cls} is none of labgrid's {kind}: write it below '{other}' of target '{part.path[1]}'"
        raise ConfigError(message, where)
    near = nearest(part.cls, names := {name.lower(): name for name in classes})
    hint = f"did you mean '{names[near]}'? If not, " if near else ""
    message = f"unknown {kind.removesuffix('s')} {quoted(part.cls)} in target '{part.path[1]}'"
    raise ConfigError(f"{message}: {hint}add the module that has it to 'imports'", where)


def _check_arguments(part: Part, cls: type, document: Document) -> None:
    import attr

    for field in attr.fields(cls):
        is_needed = field.init and field.default is attr.NOTHING and field.name not in ("target", "name")
        if is_needed and field.name not in part.arguments:
            message = f"{named(part.path)} lacks the key '{field.name}', which {part.cls} needs"
            raise ConfigError(message, document.key(part.path))


def _check_strategy(node: Node, parts: Sequence[Part], classes: Mapping[str, type], document: Document) -> None:
    from labgrid.strategy import Strategy

    from pytest_pinet.lab.labgrid.strategy import PiStrategy

    strategies = [part for part in parts if issubclass(classes[part.cls], Strategy)]
    target = f"target '{node.target}' of node '{node.name}'"
    other = next((part for part in strategies if not issubclass(classes[part.cls], PiStrategy)), None)
    path = ("targets", node.target, "drivers")
    if other is not None and len(strategies) > 1:
        names = " and ".join(part.cls for part in strategies)
        message = f"{target} has the strategies {names}, but can have only one: remove {other.cls}"
        raise ConfigError(message, document.key(other.path))
    if other is not None:
        message = (
            f"{target} has the strategy {other.cls}, but pytest-pinet boots boards only with {OWN_STRATEGY}: "
            f"replace {other.cls} by {OWN_STRATEGY}, and add {OWN_MODULE} to 'imports'"
        )
        raise ConfigError(message, document.key(other.path))
    if not strategies:
        message = f"{target} has no strategy: add `{OWN_STRATEGY}: {{}}` to its drivers, and {OWN_MODULE} to 'imports'"
        raise ConfigError(message, document.key(path))
    if len(strategies) > 1:
        message = f"{target} has two strategies, but can have only one: remove {strategies[1].cls}"
        raise ConfigError(message, document.key(strategies[1].path))
