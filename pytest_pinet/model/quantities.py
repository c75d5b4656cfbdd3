"""Numbers with units, parsed once at the edge.

Bit rates are decimal SI (1 Mbit/s = 1e6 bit/s). Sizes of windows and buffers are binary (64K = 65536 bytes), as in
iperf3.
"""

from __future__ import annotations

import math
import re
from dataclasses import astuple, dataclass

from pytest_pinet.execution.names import LONGEST, shown

_RATE_UNITS = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
_RATE_SUFFIXES = {"": "bit/s", "k": "kbit/s", "m": "Mbit/s", "g": "Gbit/s"}
_RATE = re.compile(r"([0-9.eE+-]+|nan|inf)\s*([kKmMgG]?)(bit/s|bps|)", re.IGNORECASE)
_SIZE_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_SIZE = re.compile(r"([0-9]+)\s*([kKmMgG]?)(?:i?B)?")
_PER_SECOND = re.compile(r"([0-9.eE+-]+|nan|inf)\s*([kKmM]?)\s*/\s*s")
_PER_GBIT = re.compile(r"([0-9.eE+-]+|nan|inf)\s*(ms)?\s*/\s*Gbit")
_DURATION_FACTORS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9.eE+-]+|nan|inf)\s*(ms|s|min|h)", re.IGNORECASE | re.ASCII)

RATE_FORM = "a number with a unit such as '2.3 Gbit/s', '940 Mbit/s' or '2.3G'"
SHARE_FORM = "a share such as '94%'"
MINIMUM_FORM = "a rate such as '2.3 Gbit/s' or a share such as '94%'"
OF_PUBLISHED = " of published"
FRACTION_FORM = "a share such as '95%' or a number from 0 to 1"
SIZE_FORM = "a size such as '65536', '64K' or '1M'"
DURATION_FORM = "a duration such as '500 ms', '10 s' or '2 min'"
PER_SECOND_FORM = "a number for each second such as '8000/s' or '300k/s'"
CPU_FORM = "a part of a core for each Gbit/s such as '40%'"
QUANTITY_FORM = "a value with its unit such as '941 Mbit/s', '8100/s', '1.2 ms', '3%' or '850/Gbit'"
MOST_BPS = 1e13
MOST_S = 366 * 86_400.0
# A whole core for 1 Mbit/s.
MOST_CPU = 100_000


def _number(text: str, form: str, factor: float = 1.0, most: float = math.inf, limit: str = "") -> float:
    """Return a number in the unit of ``factor``. ``limit`` is the word for ``most``."""
    try:
        # Python also reads digits of other scripts, and 1_000.
        value = float(text if text.isascii() and "_" not in text else "") * factor
    except ValueError:
        raise ValueError(f"{text!r} is not {form}") from None
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number; expected {form}")
    if value < 0:
        raise ValueError(f"{text!r} is negative; expected {form}")
    if value > most:
        raise ValueError(f"{text!r} is more than {limit}; expected {form}")
    return value


def _parts(pattern: re.Pattern[str], text: str, form: str) -> re.Match[str]:
    """Return the match of a whole text. Raises ValueError that says to expect ``form``."""
    if match := pattern.fullmatch(text.strip()):
        return match
    raise ValueError(f"{text!r} is not {form}")


def unit_of(value: float, unit: str = "bit/s") -> tuple[str, float]:
    """Return the unit in which a value of this size is written, and its size in ``unit`` (of `Figure`)."""
    if unit != "bit/s":
        small = unit == "s" and value < 1
        return ("ms", 1e-3) if small else ("%", 0.01) if unit == "share" else (unit, 1.0)
    return next((one for one in reversed(_RATE_UNITS.items()) if value >= 0.99995 * one[1]), ("bit/s", 1.0))


@dataclass(frozen=True, order=True)
class Bitrate:
    """A bit rate in bit/s, finite and not negative."""

    bps: float

    @classmethod
    def parse(cls, text: str, form: str = RATE_FORM) -> Bitrate:
        """Read ``2.3 Gbit/s``, ``940M`` or ``100 Mbps``; a number without a unit is refused (ValueError).

        ``form`` is what the error says is expected.
        """
        match = _RATE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a bit rate; expected {form}")
        number, prefix, unit = match.groups()
        if unit.startswith("B") and "i" not in unit.lower():
            raise ValueError(f"{text!r} looks like bytes per second; expected bits: {RATE_FORM}")
        if not prefix and not unit:
            _number(number, form)
            raise ValueError(f"{text!r} has no unit; expected {form}")
        factor = _RATE_UNITS[_RATE_SUFFIXES[prefix.lower()]]
        return cls(_number(number, form, factor, MOST_BPS, "any link has: 10 Tbit/s"))

    @classmethod
    def mbps(cls, value: float) -> Bitrate:
        return cls(value * 1e6)

    def __str__(self) -> str:
        unit, factor = unit_of(self.bps)
        value = self.bps / factor
        # Show at least three digits: 1.04 Mbit/s as 1.0 would hide 4 %. page.js writes rates in the same way.
        digits = 0 if unit == "bit/s" else 2 if unit == "Gbit/s" or value < 9.995 else 1 if value < 10_000 else 0
        return f"{value:.{digits}f} {unit}"


@dataclass(frozen=True, order=True)
class Share:
    """A fraction of a reference, written as a percentage."""

    fraction: float

    @classmethod
    def parse(cls, text: str, form: str = SHARE_FORM) -> Share:
        """Read ``94%`` or ``94 %``; more than 100 % is refused (ValueError that says to expect ``form``)."""
        stripped = text.strip()
        if not stripped.endswith("%"):
            raise ValueError(f"{text!r} is not a share; expected {form}")
        fraction = _number(stripped[:-1].strip(), form) / 100
        if fraction > 1:
            raise ValueError(f"{text!r} is more than 100%; expected {form}")
        return cls(fraction)

    def __str__(self) -> str:
        return f"{self.fraction * 100:g}%"


@dataclass(frozen=True, order=True)
class PublishedShare(Share):
    """A fraction of the published goodput of a NIC of a board in one direction, written ``90% of published``.

    ``rate`` is this goodput; None: nothing is published, so the fraction is one of the physical limit.
    """

    rate: Bitrate | None = None

    @classmethod
    def parse(cls, text: str, form: str = SHARE_FORM) -> PublishedShare:
        """Read ``90% of published``. Raises ValueError."""
        return cls(Share.parse(text.strip().removesuffix(OF_PUBLISHED), form).fraction)

    def __str__(self) -> str:
        return f"{super().__str__()}{OF_PUBLISHED}"


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time in seconds, finite and not negative."""

    seconds: float

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Parse ``5 ms`` or ``2 s``. Raises ValueError."""
        return cls(parse_duration(text))

    def __str__(self) -> str:
        return f"{self.seconds:.3g} s" if self.seconds >= 1 else f"{self.seconds * 1000:.3g} ms"


@dataclass(frozen=True, order=True)
class CpuCost:
    """The processor time of traffic: percent of one core per Gbit/s of goodput. More than 100 is possible."""

    percent: float

    @classmethod
    def parse(cls, text: str) -> CpuCost:
        """Parse ``40%``. Raises ValueError."""
        stripped = text.strip()
        if not stripped.endswith("%"):
            raise ValueError(f"{text!r} is not {CPU_FORM}")
        percent = _number(stripped[:-1].strip(), CPU_FORM)
        if percent > MOST_CPU:
            raise ValueError(f"{text!r} is more than any traffic takes; expected {CPU_FORM}, at most {MOST_CPU}%")
        return cls(percent)

    def __str__(self) -> str:
        return f"{self.percent:.4g}% of a core per Gbit/s"


@dataclass(frozen=True, order=True)
class PerSecond:
    """A number of transactions, connections or packets for each second."""

    number: float

    @classmethod
    def parse(cls, text: str) -> PerSecond:
        """Read ``8000/s`` or ``300k/s``. Raises ValueError."""
        match = _parts(_PER_SECOND, text, PER_SECOND_FORM)
        return cls(_number(match[1], PER_SECOND_FORM, {"": 1.0, "k": 1e3, "m": 1e6}[match[2].lower()]))

    def __str__(self) -> str:
        return f"{self.number:.0f}/s" if self.number >= 99.5 else f"{self.number:.3g}/s"


@dataclass(frozen=True, order=True)
class PerGbit:
    """What a Gbit costs: a number, or a number of ``ms``."""

    number: float
    of: str = ""

    @classmethod
    def parse(cls, text: str) -> PerGbit:
        """Read ``850/Gbit`` or ``12 ms/Gbit``. Raises ValueError."""
        match = _parts(_PER_GBIT, text, QUANTITY_FORM)
        return cls(_number(match[1], QUANTITY_FORM), f" {match[2]}" if match[2] else "")

    def __str__(self) -> str:
        return f"{self.number:.3g}{self.of}/Gbit" if self.number < 1000 else f"{self.number:.0f}{self.of}/Gbit"


Quantity = Bitrate | PerSecond | Duration | Share | PerGbit


def amount(of: Quantity) -> float:
    """Return the number of a quantity: bit/s, numbers for each second or Gbit, seconds, or a share from 0 to 1."""
    number: float = astuple(of)[0]
    return number


def parse_quantity(text: str) -> Quantity:
    """Read a value with its unit: ``941 Mbit/s``, ``8100/s``, ``1.2 ms``, ``3%`` or ``850/Gbit``. Raises ValueError."""
    for pattern, parse in ((_PER_SECOND, PerSecond.parse), (_PER_GBIT, PerGbit.parse), (_DURATION, Duration.parse)):
        if pattern.fullmatch(text.strip()):
            return parse(text)
    if text.strip().endswith("%"):
        return Share.parse(text, QUANTITY_FORM)
    try:
        return Bitrate.parse(text)
    except ValueError:
        raise ValueError(f"{text!r} is not {QUANTITY_FORM}") from None


def parse_text(value: object, form: str) -> str:
    """A value as text. A number reads as its digits: the next parser then says that the unit is missing. ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > LONGEST:
        raise ValueError(f"expected {form}, got {shown(value)}")
    return str(value)


def parse_minimum(value: object) -> Bitrate | Share:
    """Read a limit: a bit rate, or a share of the physical limit or of published goodput. Raises ValueError."""
    text = parse_text(value, MINIMUM_FORM)
    if text.strip().endswith(OF_PUBLISHED):
        return PublishedShare.parse(text, MINIMUM_FORM)
    kind = Share if text.strip().endswith("%") else Bitrate
    return kind.parse(text, MINIMUM_FORM)


def parse_fraction(value: object) -> Share:
    """Read a share as text (``95%``) or as a number from 0 to 1 (``0.95``). Raises ValueError."""
    text = parse_text(value, FRACTION_FORM)
    if isinstance(value, str):
        return Share.parse(text, FRACTION_FORM)
    if not 0 <= float(text) <= 1:
        raise ValueError(f"{text} is not {FRACTION_FORM}")
    return Share(float(text))


def parse_size(text: str) -> int:
    """Parse a size in bytes; k, M and G are binary. Raises ValueError."""
    match = _parts(_SIZE, text, SIZE_FORM)
    return int(match.group(1)) * _SIZE_FACTORS[match.group(2).lower()]


def parse_duration(text: str) -> float:
    """Parse a duration and return seconds. Raises ValueError."""
    match = _parts(_DURATION, text, DURATION_FORM)
    return _number(match.group(1), DURATION_FORM, _DURATION_FACTORS[match.group(2).lower()], MOST_S, "a year")


TOLERANCE_FORM = "a tolerance such as '3%', '3% and 20 Mbit/s' or {relative: 3%, absolute: 20 Mbit/s}"
TOLERANCE_PARTS = ("relative", "absolute")


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
                if part not in TOLERANCE_PARTS:
                    accepted = " and ".join(TOLERANCE_PARTS)
                    raise ValueError(f"{str(part)!r} is no part of a tolerance; expected {accepted}")
            if "relative" not in value:
                raise ValueError(f"a tolerance needs its relative part; expected {TOLERANCE_FORM}")
            relative, absolute = value["relative"], value.get("absolute")
        elif isinstance(value, str):
            relative, _, absolute = (part.strip() or None for part in value.partition(" and "))
        else:
            raise ValueError(f"{value!r} is not {TOLERANCE_FORM}")
        for part in (relative, absolute):
            if not isinstance(part, str | None):
                raise ValueError(f"{part!r} has no unit; expected {TOLERANCE_FORM}")
        if relative is None:
            raise ValueError(f"a tolerance needs its relative part; expected {TOLERANCE_FORM}")
        share = Share.parse(relative, TOLERANCE_FORM)
        if not 0 < share.fraction < 1:
            tolerated = "nothing" if not share.fraction else "all"
            raise ValueError(f"{relative!r} tolerates {tolerated}; expected {TOLERANCE_FORM}")
        return cls(share, None if absolute is None else Bitrate.parse(absolute, TOLERANCE_FORM))

    def lowest(self, baseline: Bitrate) -> Bitrate:
        """Return the lowest goodput that is no regression from ``baseline``."""
        relative = baseline.bps * (1 - self.relative.fraction)
        absolute = relative if self.absolute is None else baseline.bps - self.absolute.bps
        return Bitrate(max(min(relative, absolute), 0.0))

    def __str__(self) -> str:
        return str(self.relative) if self.absolute is None else f"{self.relative} and {self.absolute}"


# The default for an accepted baseline without a configured tolerance: the noise of a quiet link allows it.
DEFAULT_TOLERANCE = Tolerance(Share(0.03))


GROWTH_FORM = "a growth such as '1%', '20' (instructions for each packet) or '1% and 20'"


@dataclass(frozen=True)
class Growth:
    """How much a number of instructions for each packet may grow: by a share of its old value, by a count, or by both.

    A value that grows by more than both parts exceeds a growth that has both.
    """

    relative: Share | None
    absolute: float | None

    @classmethod
    def parse(cls, text: str) -> Growth:
        """Read ``1%``, ``20`` or ``1% and 20``. A growth of 0 is accepted: exact values repeat. Raises ValueError."""
        parts = [part.strip() for part in text.split(" and ")]
        shares = [Share.parse(part, GROWTH_FORM) for part in parts if part.endswith("%")]
        counts = [_number(part, GROWTH_FORM) for part in parts if not part.endswith("%")]
        if len(shares) > 1 or len(counts) > 1:
            raise ValueError(f"{text!r} is not {GROWTH_FORM}")
        return cls(shares[0] if shares else None, counts[0] if counts else None)

    def most(self, before: float) -> float:
        """Return the largest growth from ``before`` that is allowed."""
        relative = 0.0 if self.relative is None else self.relative.fraction * before
        return max(relative, self.absolute or 0.0)

    def __str__(self) -> str:
        counted = None if self.absolute is None else f"{self.absolute:g} instructions"
        return " and ".join(str(part) for part in (self.relative, counted) if part is not None)
