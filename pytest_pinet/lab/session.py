"""A lab in use by this process: coordinator, nodes, switches, links."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_pinet.config.template import substitute
from pytest_pinet.errors import ConfigError, CoordinatorError
from pytest_pinet.lab import contention, link, switchport
from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.node_pool import NodePool
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node

DEFAULT_COORDINATOR = "127.0.0.1:20408"


class LabSession:
    """Opens links on a lab. ``on_wait`` is told what is waited for.

    Construction connects to the coordinator (CoordinatorError, ConfigError); ``close`` leaves every node as found.
    """

    def __init__(self, lab: Lab, identity: Identity, acquire_timeout_s: float, on_wait: Callable[[str], None]) -> None:
        from labgrid import Environment
        from labgrid.exceptions import InvalidConfigError

        from pytest_pinet.lab import places

        self.lab = lab
        self._on_wait = on_wait
        self._timeout_s = acquire_timeout_s
        try:
            self._environment = Environment(lab.file)
        except (InvalidConfigError, ImportError) as error:
            raise ConfigError(f"labgrid cannot use this file: {error}") from error
        address = self._environment.config.get_option("coordinator_address", "") or os.environ.get("LG_COORDINATOR")
        self.address = address or DEFAULT_COORDINATOR
        self._coordinator = Coordinator(self.address, identity)
        places.install(self._coordinator)
        self._pool = NodePool(self._coordinator, self._make_target, on_wait)
        self._switches: dict[str, switchport.SwitchBackend] = {}
        self._warnings: list[str] = []

    def _make_target(self, node: Node) -> Any:
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
            target.get_driver(Strategy, activate=False)
        except (NoStrategyFoundError, NoDriverFoundError, InvalidConfigError, UserError) as error:
            raise ConfigError(f"labgrid cannot build target {node.target!r}: {error}", node.where) from error
        except (NoSupplierFoundError, ServerError) as error:
            # The file names the drivers; it is the exporter that has to supply what they bind to.
            kind = re.search(r"no (\w+) resource", str(error))
            missing = f"no {kind[1]}" if kind else str(error)
            raise CoordinatorError(
                f"no exporter serves place {node.place} ({missing}), which node {node.name} needs",
                f"start labgrid-exporter where {node.place} is connected; labgrid-client -x {self.address} "
                f"-p {node.place} show tells what it has",
            ) from error
        return target

    def _switch(self, name: str) -> switchport.SwitchBackend:
        if name not in self._switches:
            switch = self.lab.switches[name]
            base = str(Path(self.lab.file).resolve().parent)
            settings = {key: substitute(text, os.environ, base) for key, text in switch.settings.items()}
            self._switches[name] = switchport.connect(switch, settings)
        return self._switches[name]

    @contextmanager
    def open(self, combination: Combination) -> Iterator[link.Link]:
        """A link for this combination: nodes leased, booted, logged into, cabled and checked; all cabling is undone.

        The nodes stay booted and leased until ``keep_only`` or ``close``.
        """
        nodes = combination.nodes
        sessions = {session.node.name: session for session in self._pool.get(nodes, self._timeout_s)}
        names = {end.interface.port.switch for end in (combination.dut, combination.peer)}
        switches = {name: self._switch(name) for name in sorted(names)}
        undo = UndoStack()
        try:
            yield link.connect(combination, sessions, switches, undo)
        finally:
            self._warnings += undo.close(self._pool.lost(nodes))

    def check(self, combination: Combination) -> None:
        """Make sure that the nodes are still leased to us. Raises LeaseError or CoordinatorError."""
        self._pool.check(combination.nodes)

    @contextmanager
    def exclusive(self, combination: Combination) -> Iterator[None]:
        """Measure alone in every contention domain that these nodes are in."""
        names = {node.name for node in combination.nodes}
        domains = [domain for domain, members in self.lab.domains.items() if names & set(members)]
        # Labs that a launcher makes share this host, whatever their coordinators.
        key = self.address if self.lab.launcher is None else "this host"
        with contention.exclusive(key, domains, self._timeout_s, self._on_wait):
            yield

    def keep_only(self, nodes: Iterable[Node]) -> None:
        """Leave and release all nodes but these."""
        self._pool.keep_only(nodes)

    def distrust(self, combination: Combination) -> None:
        """Log out of the nodes of this combination after trouble, so that the next user starts afresh."""
        for node in combination.nodes:
            self._pool.distrust(node)

    def take_warnings(self) -> list[str]:
        """What could not be undone since the last call."""
        warnings = [*self._warnings, *self._pool.warnings]
        self._warnings.clear()
        self._pool.warnings.clear()
        return warnings

    def close(self) -> list[str]:
        """Leave and release everything; returns what could not be undone."""
        steps: Mapping[str, Callable[[], object]] = {
            "release the nodes": lambda: self.keep_only(()),
            **{f"close switch {name}": switch.close for name, switch in self._switches.items()},
            "clean up labgrid's targets": self._environment.cleanup,
        }
        for what, step in steps.items():
            try:
                step()
            except CoordinatorError as error:
                self._warnings.append(f"could not {what}: {error.message}")
            except Exception as error:
                self._warnings.append(f"could not {what}: {type(error).__name__}: {error}")
        self._coordinator.close()
        return self.take_warnings()
