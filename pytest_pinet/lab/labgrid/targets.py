"""The labgrid part of a lab file: the coordinator's address, the target of each node, and what is wrong with them.

labgrid itself names a wrong driver only when a board is used, and without the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.config.labgrid_keys import Part, parts_of, unset_variables
from pytest_pinet.config.section import named, read_text
from pytest_pinet.config.yaml_lines import Document, parse
from pytest_pinet.errors import ConfigError, CoordinatorError, PinetError, Where, first_line
from pytest_pinet.execution.names import nearest, quoted
from pytest_pinet.execution.shell import ssh_options
from pytest_pinet.lab.labgrid.coordinator import address_of
from pytest_pinet.lab.launcher import environment
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


_CONNECT_S = 5


class Targets:
    """The labgrid environment of a lab. The constructor raises ConfigError when labgrid cannot use the file."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._environment: Any = _environment(lab)
        self.address = address_of(self._environment)

    def make(self, node: Node) -> object:
        """Return the target of a leased node. Raises ConfigError; CoordinatorError if no exporter serves it."""
        from labgrid.exceptions import NoDriverFoundError, NoSupplierFoundError
        from labgrid.remote.client import ServerError
        from labgrid.strategy import Strategy

        try:
            target = self._environment.get_target(node.target)
            if target is None:
                raise ConfigError(f"node '{node.name}' has no target '{node.target}' in this file", node.where)
            target.get_driver(Strategy, activate=False).be_patient(node.patience)
        except PinetError:
            raise
        except Exception as error:
            # The classes of the user's own modules may raise anything.
            is_resource = isinstance(error, NoSupplierFoundError | ServerError)
            if not self._lab.has_coordinator or not is_resource or isinstance(error, NoDriverFoundError):
                cause = error.__cause__ or error
                # A validator of attrs adds what it is.
                why = str(cause.args[0]) if isinstance(cause, TypeError) and cause.args else first_line(cause)
                raise ConfigError(f"labgrid cannot build target '{node.target}': {why}", node.where) from error
            # The file names the drivers. An exporter must supply the resources to which the drivers bind.
            kind = re.search(r"no (\w+) resource", str(error))
            missing = f"no {kind[1]}" if kind else str(error)
            raise CoordinatorError(
                f"no exporter serves place {node.place} ({missing}), which node {node.name} needs",
                f"start labgrid-exporter where {node.place} is connected; labgrid-client -x {self.address} "
                f"-p {node.place} show lists its resources",
            ) from error
        return target

    def way_to(self, node: Node) -> tuple[list[str], str]:
        """Return the command that runs a command line on a node, without labgrid's connection, and its word for ssh.

        Raises ConfigError.
        """
        if node.runner:
            return ["/bin/sh", "-c"], "localhost"
        driver: Any = self.make(node)
        try:
            driver = driver.get_driver("SSHDriver", activate=False)
        except Exception as error:
            message = (
                f"target {node.target!r} has no ssh driver, which a lab without a coordinator needs: add PiSSHDriver"
            )
            raise ConfigError(message, node.where) from error
        service = driver.networkservice
        user = driver.username or service.username
        return self._way(node, driver.keyfile, (service.address, service.port, user))

    def way_beside_lease(self, node: Node, service: tuple[str, int, str]) -> list[str]:
        """Return the command that runs a command line on a node that any process may hold; ``service`` is its server.

        labgrid makes no target of a place that is not leased, so the login is read from the file.
        """
        drivers = self._environment.config.get_targets().get(node.target, {}).get("drivers", {})
        drivers = drivers if isinstance(drivers, list) else [drivers]
        login = next((one[name] or {} for one in drivers for name in one if name.endswith("SSHDriver")), {})
        host, port, user = service
        return self._way(node, login.get("keyfile"), (host, port, login.get("username") or user or "root"))[0]

    def _way(self, node: Node, keyfile: str | None, service: tuple[str, int, str]) -> tuple[list[str], str]:
        host, number, user = service
        key = ["-i", self._environment.config.resolve_path(keyfile)] if keyfile else []
        port = ["-p", str(number)] if number != 22 else []
        login = [*port, f"{user}@{host}"]
        # As labgrid does: the other end counts as lost after 15 s.
        options = ssh_options(
            "ControlPath=none",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            f"ConnectTimeout={round(_CONNECT_S * node.patience)}",
        )
        return ["ssh", "-xT", *options, *key, *login, "--"], " ".join(login)

    def close(self) -> None:
        self._environment.cleanup()


def check_file(lab: Lab) -> None:
    """Check a lab file as labgrid reads it; variables need no values. Raises ConfigError."""
    with environment(dict.fromkeys(unset_variables(read_lab(lab)), "")):
        _environment(lab)


def _environment(lab: Lab) -> Any:
    """Return labgrid's environment of a lab file. Imports the modules that the file names. Raises ConfigError."""
    from labgrid import Environment
    from labgrid.exceptions import InvalidConfigError

    try:
        found = Environment(str(lab_path(lab.file)))
    except (Exception, SystemExit) as error:
        # The file was read before, so this is a module that the file imports, or a variable.
        if isinstance(error, InvalidConfigError):
            message = f"labgrid cannot use {lab.file}: {error}"
            if unset := re.search(r"unknown variable '(\w+)'", str(error)):
                message += f"; it is a variable of your shell, so run: export {unset[1]}=..."
            raise ConfigError(message) from error
        why = f"{type(error).__name__}: {first_line(error)}"
        raise ConfigError(f"a module of 'imports' cannot be imported: {why}", Where(lab.file)) from error
    check_targets(lab)
    return found
