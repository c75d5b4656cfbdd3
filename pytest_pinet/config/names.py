"""Sentences about names that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Up to this many accepted names stand in a message beside the nearest one.
SMALL = 8
# No name or value that is right is longer than this.
LONGEST = 80


def quoted(text: str) -> str:
    """A text of any kind and length in quotes, on one line, cut where it is long."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return f"'{line}'" if len(line) <= LONGEST else f"'{line[:LONGEST]}...'"


def nearest(name: str, accepted: Iterable[str]) -> str | None:
    """The accepted name that was most likely meant, or None when none is near."""
    if len(name) > LONGEST:
        return None
    candidates = difflib.get_close_matches(name.lower(), accepted, n=5, cutoff=0.6)

    def rank(candidate: str) -> tuple[float, bool]:
        # Two digits swapped (rtl8135 for rtl8153) are likelier than one mistyped, though difflib scores them alike.
        ratio = difflib.SequenceMatcher(None, candidate, name.lower()).ratio()
        return ratio, sorted(candidate) == sorted(name.lower())

    return max(candidates, key=rank, default=None)


def unknown(kind: str, name: str, accepted: Iterable[str], inside: str = "") -> str:
    """``unknown NIC 'rtl8135', did you mean 'rtl8153'?``, with all accepted names when they are few or none is near.

    ``inside`` says where it is unknown (``pinet.nodes.a``).
    """
    names = sorted(set(accepted))
    what = f"unknown {kind} {quoted(name)}" + (f" in {inside}" if inside else "")
    if not names:
        return f"{what}; none is defined"
    near = nearest(name, names)
    listed = ", ".join(names)
    if near is None:
        return f"{what}; accepted: {listed}"
    hint = f"{what}, did you mean '{near}'?"
    return f"{hint} (accepted: {listed})" if len(names) <= SMALL else hint
