"""Parse the answers of switches: speeds, counters, MAC addresses, port names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_SPEED = re.compile(r"(?:a-)?(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[GMkgm]?)", re.ASCII)
_FACTOR = {"": 1.0, "m": 1.0, "g": 1000.0, "k": 0.001}
_GROUPING = re.compile(r"[\s,.']")
_SEPARATORS = re.compile(r"[-.: ]")
_MAC = re.compile(r"[0-9a-f]{12}")
_PORT = re.compile(r"(?P<kind>\D*?)[ ]?(?P<number>\d.*)")


@dataclass
class PortFacts:
    """The facts of one port: the first text of each group, and all matches for facts that can occur more than once."""

    first: dict[str, str] = field(default_factory=dict)
    matches: list[dict[str, str]] = field(default_factory=list)


def find(patterns: Iterable[str], answer: str, ports: Sequence[str], into: dict[str, PortFacts]) -> None:
    """Search an answer that covers ``ports`` for all patterns. A match without a group ``port`` is for each port."""
    for pattern in patterns:
        for match in re.finditer(pattern, answer, re.MULTILINE):
            groups = {name: text.strip() for name, text in match.groupdict().items() if text is not None}
            shown = groups.pop("port", None)
            for port in ports:
                if shown is None or same_port(port, shown):
                    facts = into[port]
                    facts.matches.append(groups)
                    for name, text in groups.items():
                        facts.first.setdefault(name, text)


def same_port(one: str, other: str) -> bool:
    """Whether two names mean one port: ``Gi1/0/1``, ``gigabitethernet 1/0/1`` and ``GigabitEthernet1/0/1`` do."""
    if one.casefold() == other.casefold():
        return True
    first, second = _PORT.fullmatch(one.casefold()), _PORT.fullmatch(other.casefold())
    if first is None or second is None or first["number"] != second["number"]:
        return False
    kinds = sorted((first["kind"], second["kind"]), key=len)
    return bool(kinds[0]) and kinds[1].startswith(kinds[0])


def speed_mbps(text: str | None) -> int | None:
    """Return the Mbit/s of ``1000``, ``a-100``, ``1000M``, ``10G``, ``2.5Gbps`` or ``10Gb/s``; None for ``auto``."""
    match = _SPEED.match(text or "")
    return round(float(match["number"]) * _FACTOR[match["unit"].lower()]) if match else None


def count(text: str | None) -> int | None:
    """Return a counter, with or without digit grouping (``3,855,627`` or ``3 855 627``); None if there is no number."""
    digits = _GROUPING.sub("", text or "")
    return int(digits) if digits.isascii() and digits.isdigit() else None


def mac(text: str | None) -> str | None:
    """Return a MAC address in lower case with colons, from any notation; None if the text is no MAC address."""
    digits = _SEPARATORS.sub("", (text or "").lower())
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2)) if _MAC.fullmatch(digits) else None
