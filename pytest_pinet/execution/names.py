"""Messages about unknown names, with the accepted name that is nearest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# A message about an unknown name also lists all accepted names, if there are at most so many.
SMALL = 8
# Longer texts are cut in messages; no valid name or value is longer.
LONGEST = 80


def quoted(text: str, longest: int = LONGEST) -> str:
    """Return any text in quotes, on one line, cut if it is long."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return f"'{line}'" if len(line) <= longest else f"'{line[:longest]}...'"


def is_url(text: str) -> bool:
    """Return whether a text names a file on a web server."""
    return text.startswith(("http://", "https://"))


def shown(value: object) -> str:
    """A value of the wrong type as messages show it."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return quoted(str(value).lower() if isinstance(value, bool) else str(value))


def nearest(name: str, accepted: Iterable[str], least: float = 0.6) -> str | None:
    """Return the accepted name that was most likely meant, or None if none has this ``least`` similarity."""
    if len(name) > LONGEST:
        return None
    candidates = difflib.get_close_matches(name.lower(), accepted, n=5, cutoff=least)

    def rank(candidate: str) -> tuple[float, bool]:
        # Prefer swapped digits (rtl8135 for rtl8153) to one wrong digit, although difflib scores both alike.
        ratio = difflib.SequenceMatcher(None, candidate, name.lower()).ratio()
        return ratio, sorted(candidate) == sorted(name.lower())

    return max(candidates, key=rank, default=None)


def nearest_word(word: str, accepted: Iterable[str]) -> str | None:
    """Return the option or command that was most likely meant, or None.

    What all options begin with makes no two of them similar: ``--nic`` is not ``--bisect``. The beginning of a part of
    the name is enough: ``--instr``, ``--timeout``. At 0.6, ``--reason`` would be similar to ``--json``, and at 0.65
    ``--interface`` to ``--tolerance``. Short words differ more by one letter.
    """
    options = {_bare(one): one for one in accepted if len(_bare(one)) > 1}
    bare = _bare(word)
    begun = [one for one in options if len(bare) > 2 and any(part.startswith(bare) for part in (one, *one.split("-")))]
    begun = begun or [one for one in options if bare.startswith(f"{one}-")]
    least = 0.65 if len(bare) < 6 else 0.7
    near = begun[0] if len(begun) == 1 else nearest(bare, options, least) or next(iter(begun), None)
    return options[near] if near is not None else None


def _bare(option: str) -> str:
    return option.lower().lstrip("-").removeprefix("pinet-")


def misspelled(name: str, accepted: Iterable[str]) -> str | None:
    """Return the accepted name that differs from this one by one letter, two swapped letters or capitals, or None.

    ``nearest`` only gives hints: it takes even pciehp for pcie_aspm. This is for names that may be right although no
    list has them. Names of up to three letters are never misspelled.
    """
    return next((one for one in sorted(accepted) if len(name) > 3 and _differ_by_one(name.lower(), one.lower())), None)


def _differ_by_one(a: str, b: str) -> bool:
    if len(a) != len(b):
        short, long = sorted((a, b), key=len)
        return any(long[:index] + long[index + 1 :] == short for index in range(len(long)))
    wrong = [index for index in range(len(a)) if a[index] != b[index]]
    swapped = len(wrong) == 2 and wrong[1] - wrong[0] == 1 and sorted(a) == sorted(b)
    return len(wrong) < 2 or swapped


def unknown(kind: str, name: str, accepted: Iterable[str], inside: str = "") -> str:
    """Return ``unknown NIC 'rtl8135', did you mean 'rtl8153'?``.

    All accepted names are added if they are few or if no name is similar. ``inside`` says where the unknown name was
    found (``pinet.nodes.a``).
    """
    names = sorted(set(accepted))
    what = f"unknown {kind} {quoted(name)}" + (f" in {inside}" if inside else "")
    if not names:
        return f"{what}; none is defined"
    near = (nearest_word if name.startswith("-") else nearest)(name, names)
    listed = ", ".join(names)
    if near is None:
        return f"{what}; accepted: {listed}"
    hint = f"{what}, did you mean '{near}'?"
    return f"{hint} (accepted: {listed})" if len(names) <= SMALL else hint
