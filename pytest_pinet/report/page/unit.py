"""One unit for all rates of a page, so that all of its numbers can be compared."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

_RATE = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_BITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
# In ``930.1 to 941.2 Mbit/s`` both numbers have the unit. The speed of a link (``1000 Mbit/s link``) is its name.
_RATES = re.compile(rf"(?<![\w.])({_RATE})(?:( to | and | or | -> )({_RATE}))? ([kMG]?)bit/s(?! link)")
_SPACE = re.compile(r"(?<=\d) (?=%)")
_TIED = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class PageUnit:
    """The unit, its size in bit/s, and the digits after the point: enough to see a hundredth of a percent."""

    name: str
    factor: float
    digits: int

    @classmethod
    def of(cls, rates: Iterable[float | None]) -> PageUnit:
        """Return the unit of a page with these rates: Gbit/s, unless all links are slow."""
        most = max((bps for bps in rates if bps is not None), default=1e9)
        if most >= 50e6:
            return cls("Gbit/s", 1e9, 4)
        return cls("Mbit/s", 1e6, 4) if most >= 50e3 else cls("kbit/s", 1e3, 4)

    def number(self, bps: float | None) -> str:
        """Return the number without the unit; ``-`` if there is none."""
        return "-" if bps is None else f"{bps / self.factor:.{self.digits}f}"

    def text(self, bps: float | None, missing: str = "no value") -> str:
        """Return the rate with its unit."""
        return missing if bps is None else f"{self.number(bps)}{_TIED}{self.name}"

    def sentence(self, text: str) -> str:
        """Return a sentence with all of its rates in this unit. No line ends between a number and its unit."""
        return _SPACE.sub(_TIED, _RATES.sub(self._converted, text))

    def _converted(self, match: re.Match[str]) -> str:
        low, word, high, prefix = match.groups()
        numbers = [self._precise(one, _BITS[prefix]) for one in (low, high) if one]
        return f"{(word or '').join(numbers)}{_TIED}{self.name}"

    def _precise(self, text: str, bits: float) -> str:
        """Return a number in this unit, with no more digits than it had."""
        known = len(text.partition(".")[2]) + round(math.log10(self.factor / bits))
        return f"{float(text) * bits / self.factor:.{min(max(known, 0), self.digits)}f}"
