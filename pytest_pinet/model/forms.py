"""The accepted forms of names and addresses that reach commands and connections, and how commands reach a node.

All readers of such names use these forms. A form has no character that a shell, a glob or the option parser of a
program reads as more than a part of the name.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.execution.names import shown

MAX_PORT = 65_535


class Template(str):
    """The text behind a ``!template`` tag, which is filled in when the lab is up."""

    __slots__ = ()

    def get_identifiers(self) -> list[str]:
        """Return the names of the variables in this text."""
        return string.Template(self).get_identifiers()


@dataclass(frozen=True)
class Form:
    """``text`` says what is accepted."""

    pattern: re.Pattern[str]
    text: str

    def check(self, value: object, numbers: bool = False) -> str:
        """Return a value of this form as text. ``numbers``: a whole number counts as its digits. Raises ValueError."""
        accepted: tuple[type, ...] = (str, int) if numbers else (str,)
        if isinstance(value, bool) or not isinstance(value, accepted) or not self.pattern.fullmatch(str(value)):
            raise ValueError(f"expected {self.text}, got {shown(value)}")
        return str(value)


# Names are part of test ids and host names.
NAME = Form(re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}"), "a name of letters, digits and '._+-', at most 63")
PLACE = Form(
    re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+@:/-]{0,61}[A-Za-z0-9._+@:/-])?"),
    "a name of letters, digits, blanks and '._+@:/-', at most 63",
)
# The kernel's IFNAMSIZ is 16, with the NUL at the end.
DEVICE = Form(re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}"), "a network device such as 'eth0', at most 15 characters")
DRIVER = Form(re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}"), "the name of a driver such as 'r8152'")
BUS_INFO = Form(
    re.compile(r"[A-Za-z0-9][A-Za-z0-9:._@/-]{0,63}"),
    "the bus-info of ethtool -i in quotes, such as 'usb-0000:01:00.0-1.2'",
)
PORT = Form(
    re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+,-]{0,63}"), "the name of a port, such as 'Gi1/0/1', without spaces"
)
PORT_ADDRESS = Form(re.compile(f"{NAME.pattern.pattern}/{PORT.pattern.pattern}"), "a port such as 'sw1/p1'")
# A build's name is part of files' names in reports.
BUILD_NAME = Form(
    re.compile(r"(?![ .])[^/\\\x00-\x1f\x7f-\xa0\u2028-\u202e\u2066-\u2069\ud800-\udfff]{1,100}"),
    "a name of one line without slashes, at most 100 characters",
)
# Of files that a build puts on a board.
BOARD_PATH = Form(
    re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@,=-]{0,200}(?:/[A-Za-z0-9_][A-Za-z0-9._+@,=-]{0,200}){0,10}"),
    "a path of letters, digits and '._+@,=-' below its folder",
)
USER = Form(re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}"), "the name of a user such as 'pi'")
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
# Without a letter it is an IPv4 address, or a number: a mistake.
_HOST = (
    r"\[[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_.-]{1,15})?\]"
    r"|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{0,40}(?:%[A-Za-z0-9_.-]{1,15})?"
    rf"|{_BYTE}(?:\.{_BYTE}){{3}}|(?![0-9._]+(?:e[0-9]+)?(?:[:/]|\Z))[A-Za-z0-9][A-Za-z0-9._-]{{0,252}}"
)
HOST = Form(re.compile(_HOST), "a host such as '192.0.2.5' or 'pi4b-1.example.org'")
_ADDRESS = re.compile(
    rf"(?:(?P<scheme>[a-z]{{1,8}})://)?(?:(?P<user>{USER.pattern.pattern.replace('@', '')})@)?(?P<host>{_HOST})"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)


@dataclass(frozen=True)
class Address:
    """Where to connect to. An IPv6 ``host`` has no brackets. None: not written."""

    host: str
    port: int | None = None
    user: str | None = None


def parse_address(text: str, scheme: str, example: str, user: bool = True) -> Address:
    """Return the parts of ``scheme://user@host:port``; only the host is necessary. Raises ValueError.

    ``user``: whether the address may have a user.
    """
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"]) if found is not None and found["port"] else None
    if found is None or found["scheme"] not in (None, scheme) or port == 0 or (port or 0) > MAX_PORT:
        raise ValueError(f"expected {example}, got {shown(text)}")
    if found["user"] is not None and not user:
        raise ValueError(f"expected {example}, without a user, got {shown(text)}")
    return Address(found["host"].strip("[]"), port, found["user"])


def ssh_address(text: str) -> Address:
    """Return the parts of ``ssh://user@host:port``. Raises ValueError."""
    return parse_address(text, "ssh", "an address such as 'ssh://pi@bench-host:22'")


def snmp_address(text: str) -> Address:
    """Return the parts of ``snmp://host:port``. Raises ValueError."""
    return parse_address(text, "snmp", "an address such as 'snmp://10.0.0.2:161'", user=False)


FORM = "separate, same, vlan:N (N from 1 to 4094) or wifi"
_VLAN = re.compile(r"vlan:([1-9][0-9]{0,3})")


class ManagementMode(StrEnum):
    """The kinds of ``management:`` in a lab file."""

    SEPARATE = "separate"
    SAME = "same"
    VLAN = "vlan"
    WIFI = "wifi"


_COSTS = {
    ManagementMode.SEPARATE: "no cost",
    ManagementMode.SAME: (
        "the port stays in its VLAN, the link is never taken down, and settings that take it down are skipped"
    ),
    ManagementMode.VLAN: (
        "as with 'same'; it also shares queues, interrupts and offloads with the traffic, "
        "and every kernel under test needs 802.1Q"
    ),
    ManagementMode.WIFI: "Wi-Fi driver and firmware run beside the traffic, and the connection may roam",
}


@dataclass(frozen=True)
class Management:
    """How commands reach a node; its text is the form in the lab file. ``vlan`` is the VLAN's number, or None."""

    mode: ManagementMode
    vlan: int | None = None

    @classmethod
    def parse(cls, text: str) -> Management:
        """Parse ``same`` or ``vlan:4000``. Raises ValueError with the accepted form."""
        if tagged := _VLAN.fullmatch(text):
            if (vlan := int(tagged[1])) <= 4094:
                return cls(ManagementMode.VLAN, vlan)
        elif text != ManagementMode.VLAN and text in list(ManagementMode):
            return cls(ManagementMode(text))
        raise ValueError(f"expected {FORM}, got {text!r}")

    @property
    def shares_interface(self) -> bool:
        """Whether the connection uses an interface under test, whose link must stay up."""
        return self.mode in (ManagementMode.SAME, ManagementMode.VLAN)

    @property
    def cost(self) -> str:
        """What this costs, as the end of a sentence."""
        return _COSTS[self.mode]

    def __str__(self) -> str:
        return str(self.mode) if self.vlan is None else f"{self.mode}:{self.vlan}"


def cuts_management(setting: str, end: str) -> str:
    """Return the sentence about a setting that must not be applied to an interface that carries the management."""
    return f"{setting} may take down the link of {end}, which also carries the connection to this node"
