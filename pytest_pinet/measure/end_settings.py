"""Reads the settings of all ends of a link, by their role, and values that only a boot changes once per boot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pytest_pinet.errors import SshError, first_line
from pytest_pinet.evidence.settings import read_end
from pytest_pinet.execution.undo import at_once
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


def settings_of(link: Link, warn: Callable[[str], None] | None = None) -> dict[str, dict[str, str]]:
    """Return the settings of ``dut``, ``peer``, ``end 2`` and so on, each after the name of its ``end``.

    All ends are read now, at the same time, because a test or a person can change settings at any moment. An end that
    cannot be read is left out, and ``warn`` gets a sentence; without ``warn``, raises SshError.
    """

    def read(index: int) -> tuple[str, dict[str, str]]:
        end = link.ends[index]
        role = "dut" if index == 0 else "peer" if index == 1 else f"end {index}"
        try:
            return role, {"end": str(end.endpoint), **read_end(end.shell, end.device)}
        except SshError as error:
            if warn is None:
                raise
            warn(f"the settings of {end.endpoint} could not be read: {first_line(error)}")
            return role, {}

    return {role: own for role, own in at_once(read, range(len(link.ends))) if own}
