"""Reads the settings of all ends of a link, by their role: now, or once per boot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from pytest_pinet.evidence.settings import read_end
from pytest_pinet.execution.at_once import at_once
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link

T = TypeVar("T")


def once_per_boot(end: End, key: str, read: Callable[[], T]) -> T:
    """Return what ``read`` returned at the first call since the boot of the end's node."""
    facts = end.session.facts
    if key not in facts:
        facts[key] = read()
    found: T = facts[key]
    return found


def read_now(end: End) -> dict[str, str]:
    """Read the settings of an end. Raises SshError."""
    return read_end(end.shell, end.device)


def settings_of(link: Link, read: Callable[[End], dict[str, str]] = read_now) -> dict[str, dict[str, str]]:
    """Return the settings of ``dut``, ``peer``, ``end 2`` and so on, each after the name of its ``end``."""
    found = at_once(read, link.ends)
    return {
        "dut" if index == 0 else "peer" if index == 1 else f"end {index}": {"end": str(end.endpoint), **found[index]}
        for index, end in enumerate(link.ends)
    }


def settings_of_boot(link: Link) -> dict[str, dict[str, str]]:
    """Return ``settings_of`` the link. They are read once for each boot of an end, and for each tuning of it."""
    tuned = "+".join(str(one) for one in link.tunings)

    def read(end: End) -> dict[str, str]:
        return once_per_boot(end, f"settings {end.device} {tuned}", partial(read_end, end.shell, end.device))

    return settings_of(link, read)
