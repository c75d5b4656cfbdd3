"""Finds the combinations that a user names for a command, by ID or by glob."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import nearest
from pytest_pinet.matrix import inventory
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.topology import parse_topology

FORM = "an id such as 'pi4b:onboard/pair' or a glob such as 'pi4b:*/pair'"
_PAIR = parse_topology("pair")
_WILD = frozenset("*?[")


def select_combinations(lab: Lab, names: Sequence[str]) -> list[Combination]:
    """Return the combinations of these IDs and globs, each once; all pairs if there are none. Raises ConfigError."""
    if not names:
        found = [entry.combination for entry in inventory.entries(lab, [_PAIR]) if entry.combination is not None]
        if not found:
            raise ConfigError(f"lab {lab.name} has no pair of nodes that reach each other")
        return found
    each = [_matching(lab, name) if _WILD & set(name) else [inventory.combination(lab, name)] for name in names]
    return list({one.id: one for group in each for one in group}.values())


def _matching(lab: Lab, glob: str) -> list[Combination]:
    """Return the possible combinations that match a glob. Impossible combinations are ignored."""
    glob, tuning = inventory.split_tuning(glob)
    if "/" not in glob:
        raise ConfigError(f"{glob!r} names no topology; expected {FORM}")
    topologies = [_PAIR, *inventory.largest(lab)]
    # The topology can be a glob, too.
    with suppress(ValueError):
        topologies.append(parse_topology(glob.rpartition("/")[2]))
    entries = inventory.entries(lab, list(dict.fromkeys(topologies)))
    found = [e.combination for e in entries if e.combination is not None and fnmatchcase(e.id, glob)]
    if not found:
        able = [entry.id for entry in entries if entry.combination is not None]
        near = nearest(glob, able)
        hint = f"did you mean '{near}'?" if near else f"it has {', '.join(able[:3])} ..."
        raise ConfigError(f"no combination of lab {lab.name} matches {glob!r}; {hint} ('pinet matrix' lists them)")
    return [replace(one, tuning=tuning) for one in found]
