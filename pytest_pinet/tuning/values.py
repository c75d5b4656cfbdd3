"""Parse values of a test's ``tuning=`` (numbers, on or off, CPUs) into the text that ids use.

Errors name the accepted form. Lists and masks of CPUs are also converted for the kernel's files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_pinet.execution import names
from pytest_pinet.model.quantities import parse_size

# A value is part of an id. So it has no character that is special to a shell, to pytest or in a path, and no "+",
# which separates settings.
_PLAIN = re.compile(r"[A-Za-z0-9._:@=,-]+")
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_MASK = re.compile(r"0x[0-9a-fA-F]{1,64}")
CPUS_FORM = "'all', 'off', CPUs such as '0-3' or '1,3', or a mask such as '0xf'"
SWITCH_FORM = "'on' or 'off'"


def shown(value: object) -> str:
    """Return the value as error messages quote it. The words of YAML stand for other values than numbers and texts."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else names.shown(value)


def text(value: object, form: str) -> str:
    """Return a word or a number as text. Raises ValueError."""
    written = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if not _PLAIN.fullmatch(written):
        raise ValueError(f"{shown(value)} is not {form}")
    return written


def whole(value: object, form: str, least: int, most: int) -> str:
    """Return a whole number from ``least`` to ``most``, as text. Raises ValueError."""
    try:
        number = int(text(value, form))
    except ValueError:
        raise ValueError(f"{shown(value)} is not {form}") from None
    if not least <= number <= most:
        raise ValueError(f"{number} is not {form}: from {least} to {most}")
    return str(number)


def switch(value: object) -> str:
    """Return ``on`` or ``off``. Accept True and False too, since YAML reads the words as these. Raises ValueError."""
    word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).strip().lower()
    if word not in ("on", "off"):
        raise ValueError(f"{shown(value)} is not {SWITCH_FORM}")
    return word


def one_of(value: object, accepted: Sequence[str], form: str) -> str:
    """Return ``value`` if it is one of the accepted words. Raises ValueError."""
    word = text(value, form)
    if word not in accepted:
        raise ValueError(f"{shown(value)} is not {form}")
    return word


def size(value: object, form: str) -> str:
    """Return a number of bytes in its canonical form, such as 4M. Equal sizes give equal text. Raises ValueError."""
    written = text(value, form)
    try:
        number = parse_size(written)
    except ValueError:
        raise ValueError(f"{shown(value)} is not {form}") from None
    factor, unit = next(((f, u) for f, u in ((1 << 20, "M"), (1 << 10, "K")) if number and number % f == 0), (1, ""))
    return f"{number // factor}{unit}"


def cpus(value: object) -> str:
    """Return ``all``, ``off``, a list of CPUs or a mask, as text. Raises ValueError.

    False is accepted, as YAML reads ``off`` as False. True is refused.
    """
    written = "off" if value is False else text(value, CPUS_FORM).lower()
    if written not in ("all", "off") and not _MASK.fullmatch(written):
        cpu_list(written, CPUS_FORM)
    return written


def cpu_list(written: str, form: str = "CPUs such as '0-3' or '1,3'") -> list[int]:
    """Return the numbers in a list such as ``0-1,3``. Raises ValueError."""
    found: list[int] = []
    for part in written.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f"{shown(written)} is not {form}")
        found += range(first, last + 1)
    return found


def mask_of(written: str, online: Sequence[int]) -> int:
    """Return the mask for a value of ``cpus`` on a machine with the CPUs ``online``."""
    if written == "off":
        return 0
    if written.startswith("0x"):
        return int(written, 16)
    return sum(1 << cpu for cpu in (online if written == "all" else sorted(set(cpu_list(written)))))


def read_mask(content: str) -> int:
    """Parse a mask as the kernel writes it, such as ``00000000,0000000f``."""
    return int(content.replace(",", "") or "0", 16)


def write_mask(mask: int) -> str:
    """Format a mask in groups of 32 bits, as the kernel expects it."""
    digits = f"{mask:x}"
    groups = []
    while digits:
        groups.append(digits[-8:])
        digits = digits[:-8]
    return ",".join(reversed(groups))
