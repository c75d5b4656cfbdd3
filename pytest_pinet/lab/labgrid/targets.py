"""The labgrid part of a lab file: the coordinator's address, and the target of each node."""

from __future__ import annotations

import re
from typing import Any

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.config.labgrid_keys import unset_variables
from pytest_pinet.errors import ConfigError, CoordinatorError, PinetError, Where, first_line
from pytest_pinet.lab.labgrid.coordinator import address_of
from pytest_pinet.lab.labgrid.file_check import check_targets, read_lab
from pytest_pinet.lab.launcher import environment
from pytest_pinet.model.lab import Lab, Node

_CONNECT_S = 5
# Like the options of labgrid. The other end counts as lost after 15 s.
_OPTIONS = [
    word
    for option in (
        "LogLevel=ERROR",
        "BatchMode=yes",
        "ControlPath=none",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "UserKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=no",
    )
    for word in ("-o", option)
]


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
        key = ["-i", self._environment.config.resolve_path(driver.keyfile)] if driver.keyfile else []
        port = ["-p", str(service.port)] if service.port != 22 else []
        login = [*port, f"{driver.username or service.username}@{service.address}"]
        waits = ["-o", f"ConnectTimeout={round(_CONNECT_S * node.patience)}"]
        return ["ssh", "-xT", *_OPTIONS, *waits, *key, *login, "--"], " ".join(login)

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
