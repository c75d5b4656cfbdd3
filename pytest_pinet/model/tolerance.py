"""How far goodput may lie below its accepted baseline."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.quantities import Bitrate, Share

FORM = "a tolerance such as '3%', '3% and 20 Mbit/s' or {relative: 3%, absolute: 20 Mbit/s}"
PARTS = ("relative", "absolute")


@dataclass(frozen=True)
class Tolerance:
    """A share of the baseline and optionally an ``absolute`` bit rate. A regression exceeds both.

    The absolute part prevents false alarms on slow links, where a few Mbit/s are many percent.
    """

    relative: Share
    absolute: Bitrate | None = None

    @classmethod
    def parse(cls, value: object) -> Tolerance:
        """Parse ``3%``, ``3% and 20 Mbit/s`` or a mapping with ``relative`` and optionally ``absolute``.

        Raises ValueError.

        A tolerance of 0 is refused: an unchanged link is below its baseline as often as above.
        """
        if isinstance(value, dict):
            for part in value:
                if part not in PARTS:
                    raise ValueError(f"{str(part)!r} is no part of a tolerance; expected {' and '.join(PARTS)}")
            if "relative" not in value:
                raise ValueError(f"a tolerance needs its relative part; expected {FORM}")
            relative, absolute = value["relative"], value.get("absolute")
        elif isinstance(value, str):
            relative, _, absolute = (part.strip() or None for part in value.partition(" and "))
        else:
            raise ValueError(f"{value!r} is not {FORM}")
        for part in (relative, absolute):
            if not isinstance(part, str | None):
                raise ValueError(f"{part!r} has no unit; expected {FORM}")
        if relative is None:
            raise ValueError(f"a tolerance needs its relative part; expected {FORM}")
        share = Share.parse(relative, FORM)
        if not 0 < share.fraction < 1:
            raise ValueError(f"{relative!r} tolerates {'nothing' if not share.fraction else 'all'}; expected {FORM}")
        return cls(share, None if absolute is None else Bitrate.parse(absolute, FORM))

    def lowest(self, baseline: Bitrate) -> Bitrate:
        """Return the lowest goodput that is no regression from ``baseline``."""
        relative = baseline.bps * (1 - self.relative.fraction)
        absolute = relative if self.absolute is None else baseline.bps - self.absolute.bps
        return Bitrate(max(min(relative, absolute), 0.0))

    def __str__(self) -> str:
        return str(self.relative) if self.absolute is None else f"{self.relative} and {self.absolute}"


# The default for an accepted baseline without a configured tolerance: the noise of a quiet link allows it
# (facts/measuring.md 5.3).
DEFAULT_TOLERANCE = Tolerance(Share(0.03))
