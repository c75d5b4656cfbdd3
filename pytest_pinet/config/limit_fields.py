"""The kinds of value that a limit of a lab file holds, and those of calibrations, which are written alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from pytest_pinet.config.fields import NUMBER, RATE_PATTERN, shown
from pytest_pinet.model.limit_values import parse_bound, parse_marginal
from pytest_pinet.model.limits import Bound, Metric
from pytest_pinet.model.quantities import CpuCost, Duration, Share
from pytest_pinet.model.tolerance import FORM as TOLERANCE_FORM
from pytest_pinet.model.tolerance import Tolerance as ToleranceValue

_PERCENT = {"type": "string", "pattern": rf"^{NUMBER} ?%$"}


def _bound(metric: Metric) -> PlainValidator:
    def read(value: object) -> Bound:
        # A number without its unit reads as what was written, and lists do not fill a message.
        if value is None or isinstance(value, list | bool):
            raise ValueError(f"expected a limit with its unit, got {shown(value)}")
        return parse_bound(metric, str(value) if isinstance(value, int | float) else value)

    return PlainValidator(read)


def _part(form: str, positive: bool) -> Callable[[object], Share]:
    def read(value: object) -> Share:
        if not isinstance(value, str):
            raise ValueError(f"expected {form}, got {shown(value)}")
        share = Share.parse(value)
        if positive and not share.fraction:
            raise ValueError(f"expected {form}, more than nothing, got {shown(value)}")
        return share

    return read


def _tolerance(value: object) -> ToleranceValue:
    if not isinstance(value, str | dict):
        raise ValueError(f"expected {TOLERANCE_FORM}, got {shown(value)}")
    return ToleranceValue.parse(value)


Tolerance = Annotated[
    ToleranceValue,
    PlainValidator(_tolerance),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": rf"^{NUMBER} ?%( and {RATE_PATTERN})?$"},
                {
                    "type": "object",
                    "required": ["relative"],
                    "properties": {
                        "relative": _PERCENT,
                        "absolute": {"type": "string", "pattern": f"^{RATE_PATTERN}$"},
                    },
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
Retransmits = Annotated[Share, _bound(Metric.RETRANSMITS), WithJsonSchema(_PERCENT)]
Loss = Annotated[Share, _bound(Metric.LOSS), WithJsonSchema(_PERCENT)]
Latency = Annotated[
    Duration, _bound(Metric.LATENCY), WithJsonSchema({"type": "string", "pattern": rf"^{NUMBER} ?(ms|s|min|h)$"})
]
Cpu = Annotated[CpuCost, _bound(Metric.CPU), WithJsonSchema(_PERCENT)]


Marginal = Annotated[Share, PlainValidator(parse_marginal), WithJsonSchema(_PERCENT)]
# A relative standard deviation, which may be none, and a part that may not.
Deviation = Annotated[Share, PlainValidator(_part("a share such as '0.3%'", False)), WithJsonSchema(_PERCENT)]
Part = Annotated[Share, PlainValidator(_part("a share such as '3%'", True)), WithJsonSchema(_PERCENT)]
