"""Values of command line options that need reading."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.config.names import unknown
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.limits import WAYS, Limit, Origin
from pytest_pinet.model.quantities import parse_minimum

FORM = "'90%', '2.3 Gbit/s' or 'pi4b:*/pair=tx=700 Mbit/s'"


def command_line_limits(texts: Sequence[str]) -> tuple[Limit, ...]:
    """Read every ``--pinet-min [BOARD:NIC/TOPOLOGY[=DIRECTION]=]LIMIT``. Raises ConfigError."""
    return tuple(_limit(text) for text in texts)


def _limit(text: str) -> Limit:
    *selectors, minimum = [part.strip() for part in text.split("=")]
    source = f"--pinet-min {text}"
    if len(selectors) > 2:
        raise ConfigError(f"--pinet-min {text!r}: expected {FORM}")
    try:
        parsed = parse_minimum(minimum)
    except ValueError as error:
        raise ConfigError(f"--pinet-min {text!r}: {error}") from None
    direction, both_ways = None, None
    if len(selectors) == 2:
        if selectors[1] not in WAYS:
            raise ConfigError(f"--pinet-min {text!r}: {unknown('direction', selectors[1], WAYS)}")
        direction, both_ways = WAYS[selectors[1]]
    board, _, rest = (selectors[0] if selectors else "*").partition(":")
    nic, _, topology = rest.partition("/")
    return Limit(parsed, Origin.COMMAND_LINE, source, board or "*", nic or "*", topology or "*", direction, both_ways)
