"""Who maintains the drivers of our NICs: the output of the kernel's get_maintainer.pl, shipped with its date."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from pytest_pinet.catalogue.load import read_data

FILE = "maintainers.yaml"
_LINE = re.compile(r"(?P<address>.*\S) \((?P<role>[^():]+)(?::(?P<entry>.*))?\)")
# Everybody gets mail of these entries. Mail about one driver goes to its own maintainers and to the list.
_GENERAL = ("NETWORKING DRIVERS", "THE REST", "")
_EVERYTHING = "linux-kernel@vger.kernel.org"


@dataclass(frozen=True)
class Contact:
    """A person or a list, with its role in an entry of MAINTAINERS (``supporter``, ``open list``)."""

    address: str
    role: str
    entry: str

    @property
    def is_list(self) -> bool:
        return "list" in self.role


@dataclass(frozen=True)
class Owner:
    """Who maintains a driver or a commit. ``file`` is its file or folder in the kernel tree, ``source`` who says so."""

    what: str
    file: str
    contacts: tuple[Contact, ...]
    source: str

    @property
    def entries(self) -> list[str]:
        """The entries of MAINTAINERS that are about this code, and not about all drivers of its kind."""
        own = [one.entry for one in self.contacts if one.entry not in _GENERAL]
        return list(dict.fromkeys(own)) or list(dict.fromkeys(one.entry for one in self.contacts if one.entry))

    @property
    def to(self) -> list[str]:
        """The addresses for a mail: the people of the code's own entries, or else all people."""
        people = [one for one in self.contacts if not one.is_list]
        own = [one.address for one in people if one.entry not in _GENERAL]
        return list(dict.fromkeys(own or [one.address for one in people]))

    @property
    def lists(self) -> list[str]:
        """The mailing lists, without the one that gets everything."""
        return list(dict.fromkeys(one.address for one in self.contacts if one.is_list and one.address != _EVERYTHING))


def parse_contacts(text: str) -> tuple[Contact, ...]:
    """Return the contacts in the output of ``get_maintainer.pl --roles``. Other lines are left out."""
    found = (_LINE.fullmatch(line.strip()) for line in text.splitlines())
    return tuple(Contact(one["address"], one["role"], one["entry"] or "") for one in found if one is not None)


@dataclass(frozen=True)
class _Entry:
    file: str
    contacts: tuple[str, ...]


@dataclass(frozen=True)
class _Table:
    source: str
    drivers: Mapping[str, _Entry]


@cache
def shipped_owners() -> Mapping[str, Owner]:
    """Return the owners of the drivers in our catalogue, by driver. The table is read once."""
    table = TypeAdapter(_Table).validate_python(read_data(FILE))
    return {
        driver: Owner(driver, entry.file, parse_contacts("\n".join(entry.contacts)), table.source)
        for driver, entry in table.drivers.items()
    }
