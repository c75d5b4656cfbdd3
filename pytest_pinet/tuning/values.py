"""Values as a test writes them: numbers, switches, lists of CPUs. Parsed once; wrong ones say what is accepted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_pinet.config.names import quoted
from pytest_pinet.model.quantities import parse_size

# A value stands in an id: nothing that a shell, pytest or a path takes for itself, and not "+", which parts settings.
_PLAIN = re.compile(r"[A-Za-z0-9._:@=,-]+")
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_MASK = re.compile(r"0x[0-9a-fA-F]{1,64}")
CPUS_FORM = "'all', 'off', CPUs such as '0-3' or '1,3', or a mask such as '0xf'"
SWITCH_FORM = "'on' or 'off'"


def shown(value: object) -> str:
    """As messages quote it."""
    return quoted(value) if isinstance(value, str) else repr(value)


def text(value: object, form: str) -> str:
    """A word, or a number that stands for one. Raises ValueError."""
    written = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if not _PLAIN.fullmatch(written):
        raise ValueError(f"{shown(value)} is not {form}")
    return written


def whole(value: object, form: str, least: int, most: int) -> str:
    """A whole number in these bounds. Raises ValueError."""
    try:
        number = int(text(value, form))
    except ValueError:
        raise ValueError(f"{shown(value)} is not {form}") from None
    if not least <= number <= most:
        raise ValueError(f"{number} is not {form}: from {least} to {most}")
    return str(number)


def switch(value: object) -> str:
    """``on`` or ``off``; True and False too, since YAML makes them of the words. Raises ValueError."""
    word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).strip().lower()
    if word not in ("on", "off"):
        raise ValueError(f"{shown(value)} is not {SWITCH_FORM}")
    return word


def one_of(value: object, accepted: Sequence[str], form: str) -> str:
    """One of these words. Raises ValueError."""
    word = text(value, form)
    if word not in accepted:
        raise ValueError(f"{shown(value)} is not {form}")
    return word


def size(value: object, form: str) -> str:
    """Bytes, as text such as 4M or a number; the same size is the same text. Raises ValueError."""
    written = text(value, form)
    try:
        number = parse_size(written)
    except ValueError:
        raise ValueError(f"{shown(value)} is not {form}") from None
    factor, unit = next(((f, u) for f, u in ((1 << 20, "M"), (1 << 10, "K")) if number and number % f == 0), (1, ""))
    return f"{number // factor}{unit}"


def cpus(value: object, form: str = CPUS_FORM) -> str:
    """``all``, ``off``, a list of CPUs or a mask. Raises ValueError."""
    written = "off" if value is False else text(value, form).lower()
    if written not in ("all", "off") and not _MASK.fullmatch(written):
        cpu_list(written, form)
    return written


def cpu_list(written: str, form: str = "CPUs such as '0-3' or '1,3'") -> list[int]:
    """``0-1,3`` as numbers. Raises ValueError."""
    found: list[int] = []
    for part in written.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f"{shown(written)} is not {form}")
        found += range(first, last + 1)
    return found


def mask_of(written: str, online: Sequence[int]) -> int:
    """The mask that stands for a value of ``cpus`` on a machine with these CPUs."""
    if written == "off":
        return 0
    if written.startswith("0x"):
        return int(written, 16)
    return sum(1 << cpu for cpu in (online if written == "all" else sorted(set(cpu_list(written)))))


def read_mask(content: str) -> int:
    """``00000000,0000000f`` as the kernel writes it."""
    return int(content.replace(",", "") or "0", 16)


def write_mask(mask: int) -> str:
    """In groups of 32 bits, as the kernel reads it."""
    digits = f"{mask:x}"
    groups = []
    while digits:
        groups.append(digits[-8:])
        digits = digits[:-8]
    return ",".join(reversed(groups))
