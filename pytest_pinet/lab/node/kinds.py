"""The kinds of node sessions: with power control, without it, and the machine that runs pytest."""

from __future__ import annotations

from collections.abc import Callable

from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.node.runner import RunnerSession
from pytest_pinet.lab.node.unpowered import UnpoweredSession
from pytest_pinet.model.lab import Node


def session_of(
    node: Node, make_target: Callable[[Node], object], announce: Callable[[str], None] = lambda _: None
) -> NodeSession:
    """Return the session of a leased node. ``make_target`` makes its labgrid target, if it has one.

    ``announce`` takes a sentence for the user that must be read at once.
    """
    if node.runner:
        return RunnerSession(node)
    session = NodeSession(node, make_target(node))
    if not session.strategy.has_power:
        session = UnpoweredSession(node, session.target)
    session.announce = announce
    return session
