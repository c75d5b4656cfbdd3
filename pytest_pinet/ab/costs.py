"""What one connection cost the device under test, for each Gbit that it moved."""

from __future__ import annotations

import re

from pytest_pinet.judge.attempts import Try
from pytest_pinet.model.evidence import EndEvidence

# Of the hundreds of counters that a driver has, those that tell of trouble.
_TROUBLE = re.compile(r"drop|err|miss|timeout|no_buf|fifo|restart|fail|discard|over", re.IGNORECASE)


def costs_of(one: Try) -> dict[str, float]:
    """By name; what nobody counted is absent. Empty for a connection that moved nothing."""
    moved = sum(sample.bytes for flow in one.flows for sample in flow.flow.samples) * 8 / 1e9
    if moved <= 0:
        return {}
    found: dict[str, float] = {}
    sent_again = [flow.flow.retransmits for flow in one.flows]
    known = [count for count in sent_again if count is not None]
    if known:
        found["retransmits per Gbit"] = sum(known) / moved
    if one.evidence:
        found |= _of_end(one.evidence[0], moved)
    return found


def _of_end(end: EndEvidence, moved: float) -> dict[str, float]:
    found: dict[str, float] = {}
    window_s = end.window_s or end.traffic_s
    if end.processors is not None and window_s:
        found["CPU ms per Gbit"] = sum(load.busy for load in end.processors) * window_s * 1000 / moved
        found["softirq ms per Gbit"] = sum(load.interrupts for load in end.processors) * window_s * 1000 / moved
    if end.interrupts is not None:
        found["interrupts per Gbit"] = sum(sum(counts) for counts in end.interrupts.values()) / moved
    for name in ("NET_RX", "NET_TX"):
        if end.softirqs is not None and name in end.softirqs:
            found[f"{name} softirqs per Gbit"] = sum(end.softirqs[name]) / moved
    for name, count in (end.interface or {}).items():
        if name.endswith("_packets") or _TROUBLE.search(name):
            found[f"{name} per Gbit"] = count / moved
    for name, count in (end.nic or {}).items():
        if _TROUBLE.search(name):
            found[f"{name} (driver) per Gbit"] = count / moved
    return found
