"""The levels of the suite ``everyday``: which of its parts run in which profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

# In rising order. A level runs the parts of the levels before it, too.
LEVELS = ("fast", "standard", "soak")
MARKER = "everyday"


def parts(
    items: Sequence[pytest.Item], profile_of: Callable[[pytest.Item], str]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the items that run, and the parts of a higher level than the profile of their test."""
    run: list[pytest.Item] = []
    above: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker(MARKER)
        (run if marker is None or _rank(marker.args[0]) <= _rank(profile_of(item)) else above).append(item)
    return run, above


def _rank(name: str) -> int:
    """Return the rank of a level or profile. ``full`` runs the parts of ``soak``, for longer."""
    return LEVELS.index(name) if name in LEVELS else len(LEVELS) - 1
