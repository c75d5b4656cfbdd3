"""A plugin of pytest for rows that scale time: minutes of traffic of the suite last a sixth of their time."""

from __future__ import annotations

from typing import Any

from pytest_pinet.session.arguments import parse_seconds
from pytest_pinet.session.gate import Gate

# How much faster time passes: in the suite, and in the injections of these rows.
TIMES = 6
MINUTE_S = 60.0


def pytest_configure() -> None:
    """Make long traffic shorter in this process."""
    tcp = Gate.tcp

    def shorter(self: Gate, *words: Any, duration: Any = None, **others: Any) -> Any:
        seconds = 0.0 if duration is None else parse_seconds("duration", duration)
        return tcp(self, *words, duration=seconds / TIMES if seconds > MINUTE_S else duration, **others)

    Gate.tcp = shorter  # type: ignore[method-assign]
