"""The kinds of switches of the backends ``linux`` and ``snmp``, and what each kind was tested on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from pytest_pinet.catalogue.load import read_data
from pytest_pinet.lab.switch.switchport import About


@dataclass(frozen=True)
class Kind:
    """An entry of ``catalogue/switch_kinds.yaml``; the comment there describes its keys."""

    title: str
    tested_on: tuple[str, ...]
    sources: tuple[str, ...]
    object_id: str = ""

    @property
    def about(self) -> About:
        return About(self.title, self.tested_on, self.sources)


@cache
def kinds() -> dict[str, list[Kind]]:
    """Return the kinds by backend. The file is read once."""
    return TypeAdapter(dict[str, list[Kind]]).validate_python(read_data("switch_kinds.yaml"))


def linux() -> About:
    """Return the kind of all Linux switches."""
    return kinds()["linux"][0].about


def snmp(object_id: str) -> About:
    """Return the kind of an agent with this sysObjectID (``1.3.6.1...``)."""
    fitting = [k for k in kinds()["snmp"] if not k.object_id or f"{object_id}.".startswith(f"{k.object_id}.")]
    return max(fitting, key=lambda kind: len(kind.object_id)).about
