"""Hashes the parameters of a measurement. Values with different hashes do not form one trend."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from pytest_pinet.model.lab import Lab
from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.tuning import Tuned


def parameters_hash(traffic: Traffic, mtu: int | None, tunings: Iterable[Tuned] = (), scale: float = 1.0) -> str:
    """Return a hash of the measurement parameters that are not part of the id.

    It includes the settings without effect, and the ``scale`` of the link rates.
    """
    without = sorted({tuned.name for tuned in tunings if not tuned.outcome.holds})
    # Omit unset parameters, so that a new parameter of a later version does not cut every trend.
    own = {**asdict(traffic), "mtu": mtu, "without": without or None, "scale": None if scale == 1 else scale}
    facts = {name: value for name, value in own.items() if value not in (None, False)}
    return _short(facts)


def with_tool(parameters: str, tool: str) -> str:
    """Return the hash for another traffic tool. The hash for our own default tools stays the same."""
    return parameters if tool in (Lab.traffic_tool, Lab.http_tool) else _short({"parameters": parameters, "tool": tool})


def _short(facts: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]
