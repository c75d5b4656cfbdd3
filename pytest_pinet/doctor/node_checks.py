"""Checks how a node is reached: power, serial console, ssh. A node that hangs is reported, not power-cycled."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pytest_pinet.doctor.bench import Bench, ok
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.errors import ConsoleError, LabError, PinetError, PowerError, SshError, first_line
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.lab import Node

# The same time as in a test, for a booted node. A node that was just powered on has its boot timeout.
ANSWER_TIMEOUT_S = 5.0
SSH_TIMEOUT_S = 8.0
# A power switch that fails faster than this has answered.
SILENCE_S = 2.0


class Boots:
    """The boot deadlines of the nodes that were off."""

    def __init__(self) -> None:
        self._deadlines: dict[str, Deadline] = {}

    def begin(self, node: Node) -> None:
        self._deadlines[node.name] = Deadline(node.boot_timeout_s)

    def left_s(self, node: Node, least_s: float) -> float:
        deadline = self._deadlines.get(node.name)
        return least_s if deadline is None else max(least_s, deadline.remaining_s)


class PowerReadBack:
    """Checks that each power switch reports its node's state.

    Nodes that are off are powered on before the first login.
    """

    name = "power read-back"
    blocks = "no power"

    def __init__(self, boots: Boots) -> None:
        self._boots = boots
        # Addresses of power switches that did not answer, each with the node that first needed it.
        self._silent: dict[str, str] = {}

    def run(self, bench: Bench) -> Sequence[Finding]:
        found: list[Finding] = []
        for node in bench.ready:
            try:
                found += self._look(bench, node)
            except PinetError as error:
                found.append(Finding.of(self.name, error, node.name))
        return found

    def _look(self, bench: Bench, node: Node) -> Sequence[Finding]:
        session = bench.session(node)
        on = self._is_on(session)
        try:
            session.switch_on()
        except ConsoleError as error:
            # The console must be open before power comes on. The power switch is not at fault.
            bench.refused[node.name] = error
        if on is False:
            self._boots.begin(node)
        if on is None:
            return [Finding(self.name, Status.UNKNOWN, node.name, "this power switch cannot tell whether it is on")]
        return ok(self.name, [node])

    def _is_on(self, session: NodeSession) -> bool | None:
        power, host = session.strategy.node_power, _address(session)
        if host in self._silent:
            # Each request to a dead power switch takes seconds, and many nodes can share it.
            message = f"its power switch at {host} did not answer for {self._silent[host]}"
            raise PowerError(message, "the lab's admin: as for that node")
        started = time.monotonic()
        try:
            on: bool | None = power.is_on()
        except PowerError:
            if host is not None and time.monotonic() - started > SILENCE_S:
                self._silent[host] = session.node.name
            raise
        return on


def _address(session: NodeSession) -> str | None:
    """Return the host of a node's power switch if it is a network device."""
    port = getattr(session.strategy.power, "port", None)
    host: str | None = getattr(port, "host", None)
    return host


class SerialLogin:
    """Checks the login over the serial console."""

    name = "serial login"
    blocks = "no serial login"

    def __init__(self, boots: Boots) -> None:
        self._boots = boots

    def run(self, bench: Bench) -> Sequence[Finding]:
        found: list[Finding] = []
        for node in bench.ready:
            try:
                if node.name in bench.refused:
                    raise bench.refused[node.name]
                bench.session(node).strategy.log_in(self._boots.left_s(node, ANSWER_TIMEOUT_S))
            except Exception as error:
                why = first_line(error.__cause__ or error)
                message = f"{node.name} does not answer on its serial console: {why}"
                silent = ConsoleError(message, _act(bench, node))
                found.append(Finding.of(self.name, error if isinstance(error, PinetError) else silent, node.name))
            else:
                found += ok(self.name, [node])
        return found


class Ssh:
    """Checks the login over ssh. Later checks use this connection."""

    name = "ssh"
    blocks = "no ssh"

    def __init__(self, boots: Boots) -> None:
        self._boots = boots

    def run(self, bench: Bench) -> Sequence[Finding]:
        found: list[Finding] = []
        for node in bench.ready:
            session = bench.session(node)
            try:
                session.strategy.connect(self._boots.left_s(node, SSH_TIMEOUT_S))
                session.log_in()
            except Exception as error:
                why = first_line(error.__cause__ or error)
                silent = SshError(f"{node.name} does not answer over ssh: {why}", _act(bench, node))
                found.append(Finding.of(self.name, error if isinstance(error, LabError) else silent, node.name))
            else:
                found += ok(self.name, [node])
        return found


def _act(bench: Bench, node: Node) -> str:
    client = f"labgrid-client -x {bench.coordinator.address} -p {node.place}"
    return f"look at its console: {client} console; if it hangs: {client} power cycle"
