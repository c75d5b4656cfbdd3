"""Whether the nodes of a lab are places of labgrid's coordinator, or have all resources in the lab file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_pinet.config.yaml_lines import Document
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.lab import Node

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
            remote.setdefault(_REMOTE in _resources(targets[node.target]), node)
    if len(remote) == 2:
        message = (
            f"the target of node '{remote[True].name}' has a {_REMOTE}, and that of node '{remote[False].name}' has "
            "none; expected all nodes of a lab at a labgrid coordinator, or none: use two lab files"
        )
        raise ConfigError(message, document.key(("targets", remote[False].target)))
    return False not in remote


def _resources(target: object) -> set[str]:
    """Return the classes of a target's resources, in each form that labgrid reads."""
    resources = target.get("resources") if isinstance(target, dict) else None
    if isinstance(resources, dict):
        return set(map(str, resources))
    entries = resources if isinstance(resources, list) else []
    return {str(entry.get("cls", key)) for entry in entries if isinstance(entry, dict) for key in entry}
