"""Reads the settings of all ends of a link, by their role."""

from __future__ import annotations

from collections.abc import Callable

from pytest_pinet.evidence.build import read_end
from pytest_pinet.execution.at_once import at_once
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link


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
