"""Loads exporters by name. Each one is an entry point, including our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.entry_points import EXPORTERS
from pytest_pinet.history.points import Point


def exporter(name: str) -> Callable[[Sequence[Point]], str]:
    """Return the exporter of this name, a function from the points of a run to text.

    The entry point names the function itself. Loading and calling it raise ConfigError.
    """
    found, what = EXPORTERS.load(name)
    if not callable(found):
        raise ConfigError(f"{what} is not callable; expected a function that takes the values of a run, returns text")

    def write(points: Sequence[Point]) -> str:
        try:
            text = found(points)
        except PinetError:
            raise
        except Exception as error:
            raise ConfigError(f"{what} failed: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise ConfigError(f"{what} returned {type(text).__name__}; expected text")
        return text

    return write
