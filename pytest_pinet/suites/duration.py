"""The duration of measurements in the suites of published systems."""

from __future__ import annotations

from typing import Any

import pytest

# The profile under which the sources' own methods are used.
FULL = "full"


def method(request: pytest.FixtureRequest, **arguments: Any) -> dict[str, Any]:
    """The source's own duration and warm-up under ``--pinet-profile=full``.

    Otherwise nothing, so that each combination takes seconds: as long as its verdict needs.
    """
    return arguments if request.config.getoption("--pinet-profile") == FULL else {}
