"""The labgrid part of a lab file: the coordinator's address, and the target of each node."""

from __future__ import annotations

import re
from typing import Any

from pytest_pinet.config.lab_path import lab_path
from pytest_pinet.errors import ConfigError, CoordinatorError
from pytest_pinet.lab.labgrid.coordinator import address_of
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
        from labgrid import Environment
        from labgrid.exceptions import InvalidConfigError

        try:
            self._environment = Environment(str(lab_path(lab.file)))
        except (InvalidConfigError, ImportError) as error:
            message = f"labgrid cannot use {lab.file}: {error}"
            if unset := re.search(r"unknown variable '(\w+)'", str(error)):
                message += f"; it is a variable of your shell, so run: export {unset[1]}=..."
            raise ConfigError(message) from error
        self.address = address_of(self._environment)

    def make(self, node: Node) -> object:
        """Return the target of a leased node. Raises ConfigError; CoordinatorError if no exporter serves it."""
        from labgrid.exceptions import (
            InvalidConfigError,
            NoDriverFoundError,
            NoStrategyFoundError,
            NoSupplierFoundError,
        )
        from labgrid.remote.client import ServerError, UserError
        from labgrid.strategy import Strategy

        try:
            target = self._environment.get_target(node.target)
            if target is None:
                raise ConfigError(f"node {node.name!r} has no target {node.target!r} in this file", node.where)
            target.get_driver(Strategy, activate=False).patience = node.patience
        except (NoStrategyFoundError, NoDriverFoundError, InvalidConfigError, UserError) as error:
            raise ConfigError(f"labgrid cannot build target {node.target!r}: {error}", node.where) from error
        except (NoSupplierFoundError, ServerError) as error:
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
