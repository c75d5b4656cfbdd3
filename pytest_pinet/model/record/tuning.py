"""The record of one setting of a tuning."""

from __future__ import annotations

from pytest_pinet.model.record.base import Record


class TuningRecord(Record):
    """One setting at one end. ``end`` is ``node:interface``, or the node alone for a setting of the whole node.

    ``before`` and ``found`` are the values read before and after the change; empty if the value cannot be read.
    ``outcome`` is ``applied``, ``unchanged``, ``clamped``, ``unsupported`` or ``rejected``. ``why`` is the reason if
    the setting has no effect.
    """

    end: str
    name: str
    asked: str
    before: str
    found: str
    outcome: str
    why: str
