"""A tuning: reversible settings of the ends, and what came of each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

# What the axis calls nodes that are left as they are.
UNTUNED = "none"


class Outcome(StrEnum):
    """What came of a setting, seen by reading it back.

    ``applied`` it was changed and holds; ``unchanged`` it held already; ``clamped`` something else than asked for
    holds; ``unsupported`` there is no such knob here, or it moves nothing; ``rejected`` the kernel, driver or firmware
    refused.
    """

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    CLAMPED = "clamped"
    UNSUPPORTED = "unsupported"
    REJECTED = "rejected"

    @property
    def holds(self) -> bool:
        """Whether a figure may claim this setting."""
        return self in (Outcome.APPLIED, Outcome.UNCHANGED)


@dataclass(frozen=True)
class Tuning:
    """Settings by name, each with its value as text, in the order of the key; ``tuning.registry`` reads them."""

    settings: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """``rps=all+mtu=9000``: stands in ids; empty when nothing is tuned."""
        return "+".join(f"{name}={value.replace(' ', ',')}" for name, value in self.settings)

    def __bool__(self) -> bool:
        return bool(self.settings)

    def __str__(self) -> str:
        return self.key or UNTUNED

    def only(self, names: Collection[str]) -> Tuning:
        """The part with these names."""
        return Tuning(tuple(setting for setting in self.settings if setting[0] in names))


@dataclass(frozen=True)
class Tuned:
    """One setting of one end: what was asked for, found before, and read back.

    ``end`` is ``node:interface``, or the node alone for what belongs to all of it. ``before`` and ``found`` are empty
    where there was nothing to read; ``why`` says more where it does not hold.
    """

    end: str
    name: str
    asked: str
    before: str
    found: str
    outcome: Outcome
    why: str = ""

    def __str__(self) -> str:
        """``tuning mtu=9000 of pi4b-1:usb: rejected, it is 1500: Invalid argument``."""
        found = f", it is {self.found}" if self.found and not self.outcome.holds else ""
        why = f": {self.why}" if self.why else ""
        return f"tuning {self.name}={self.asked} of {self.end}: {self.outcome}{found}{why}"
