"""A tuning: reversible settings of the ends, and the outcome of each setting."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

# The value of the tuning axis for nodes without a tuning.
UNTUNED = "none"


class SettingOutcome(StrEnum):
    """The outcome of a setting, found by reading it back.

    ``applied``: it was changed and holds. ``unchanged``: it already had this value. ``clamped``: another value than the
    requested one holds. ``unsupported``: there is no such setting here, or it has no effect. ``rejected``: the kernel,
    driver or firmware refused.
    """

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    CLAMPED = "clamped"
    UNSUPPORTED = "unsupported"
    REJECTED = "rejected"

    @property
    def holds(self) -> bool:
        """Whether a result may be attributed to this setting."""
        return self in (SettingOutcome.APPLIED, SettingOutcome.UNCHANGED)


@dataclass(frozen=True)
class Tuning:
    """Settings by name, each with its value as text, in the order of the key. ``tuning.registry`` parses them."""

    settings: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The text for ids, ``rps=all+mtu=9000``; empty if nothing is tuned."""
        return "+".join(f"{name}={value.replace(' ', ',')}" for name, value in self.settings)

    def __bool__(self) -> bool:
        return bool(self.settings)

    def __str__(self) -> str:
        return self.key or UNTUNED

    def only(self, names: Collection[str]) -> Tuning:
        return Tuning(tuple(setting for setting in self.settings if setting[0] in names))


@dataclass(frozen=True)
class Tuned:
    """One setting of one end: the requested value, the value before, and the value read back.

    ``end`` is ``node:interface``, or only the node for settings of the whole node. ``before`` and ``found`` are empty
    if no value could be read. ``outcome`` is ``applied``, ``unchanged``, ``clamped``, ``unsupported`` or ``rejected``.
    ``why`` explains an outcome that does not hold.
    """

    end: str
    name: str
    asked: str
    before: str
    found: str
    outcome: SettingOutcome
    why: str = ""

    def __str__(self) -> str:
        """Return ``tuning mtu=9000 of pi4b-1:usb: rejected, it is 1500: Invalid argument``."""
        found = f", the value is {self.found}" if self.found and not self.outcome.holds else ""
        why = f": {self.why}" if self.why else ""
        return f"tuning {self.name}={self.asked} of {self.end}: {self.outcome}{found}{why}"
