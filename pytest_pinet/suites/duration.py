"""The duration of measurements in the suites of published systems, and the measurement that several suites share."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_pinet.lab.link.link import Link
from pytest_pinet.session.gate import Gate

# The profile under which the sources' own methods are used.
FULL = "full"


def method(request: pytest.FixtureRequest, **arguments: Any) -> dict[str, Any]:
    """The source's own duration and warm-up under ``--pinet-profile=full``.

    Otherwise nothing, so that each combination takes seconds: as long as its verdict needs.
    """
    return arguments if request.config.getoption("--pinet-profile") == FULL else {}


class OneWay:
    """One direction after the other: the source names neither the duration nor the direction of its measurements."""

    @pytest.mark.parametrize("direction", ["tx", "rx"])
    def test_one_way(self, link: Link, gate: Gate, request: pytest.FixtureRequest, direction: str) -> None:
        gate.tcp(link, direction, **method(request, duration=60, warmup=5))
