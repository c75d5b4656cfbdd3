"""How a figure was measured, as one short word: figures with different ones are no trend."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict

from pytest_pinet.model.traffic import Traffic
from pytest_pinet.model.tuning import Tuned


def parameters_hash(traffic: Traffic, mtu: int | None, tunings: Iterable[Tuned] = (), scale: float = 1.0) -> str:
    """Names how a figure was measured, beyond what its id says.

    So also without which of its settings, and on links that ran at which ``scale`` of their rate.
    """
    without = sorted({tuned.name for tuned in tunings if not tuned.outcome.holds})
    # What is not set is left out, so that a parameter of a later version does not cut every trend.
    own = {**asdict(traffic), "mtu": mtu, "without": without or None, "scale": None if scale == 1 else scale}
    facts = {name: value for name, value in own.items() if value not in (None, False)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:12]
