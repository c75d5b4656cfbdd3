"""Which nodes talk to which."""

from __future__ import annotations

# pair: the device under test and one peer.
TOPOLOGIES: tuple[str, ...] = ("pair",)
