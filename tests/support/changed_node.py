"""Changes the node of a session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_pinet.lab.node.node_login import NodeLogin
from pytest_pinet.lab.node.node_session import NodeSession


def change_node(session: NodeSession, **changes: Any) -> None:
    """Change these attributes of the session's node, from its next login on."""
    session.node = replace(session.node, **changes)
    session.login = NodeLogin(session.node, session.strategy, session._fence)
