"""ARP on a node with several NICs in one segment: each NIC answers only for its own addresses while a link is open.

By default Linux answers an ARP request on any NIC for any address of the node (arp_ignore=0), and one of the answers
wins. Traffic would then reach another NIC than the one under test.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.execution.shell import as_root, reason
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link.end import End, change
from pytest_pinet.tuning.journal import FOLDER, JournalEntry

JOURNAL = FOLDER
_CONF = "/proc/sys/net/ipv4/conf"
# 1: answers only for an address of the NIC that received the request. 2: only if the sender is in the same subnet, too.
_OWN_ONLY = (1, 2)
# Requests name the best address of the sending NIC, not any address of the node.
_BEST_ADDRESS = 2
_ARPHRD_ETHER = "1"
_IFF_UP = 1
_FLAGS = re.compile(r"0x[0-9a-f]{1,8}")
# Prints name, type, flags, arp_ignore and arp_announce of each device. The shell reads the files itself.
_READ = (
    "r() {{ v=; read -r v <$1; printf ' %s' \"${{v:--}}\"; }} 2>/dev/null;"
    " for d in all $(ls /sys/class/net); do printf %s $d; r /sys/class/net/$d/type; r /sys/class/net/$d/flags;"
    " r {conf}/$d/arp_ignore; r {conf}/$d/arp_announce; echo; done"
)


@dataclass(frozen=True)
class _Device:
    """A network device with its ARP settings. ``may_answer``: it is an Ethernet device and up."""

    name: str
    may_answer: bool
    ignore: int
    announce: int


def answer_for_own_addresses(ends: Sequence[End], undo: UndoStack) -> None:
    """Set ``arp_ignore=1`` on all NICs of a node that are up, and ``arp_announce=2`` on the NICs of ``ends``.

    All ends are of one node, and up. NICs that are not in the lab file can be in the same segment, too. The larger of
    the values for "all" and for the NIC counts. ``undo`` restores the old values; after a crash, the journal on the
    node does. Raises LinkError.
    """
    shell, own = ends[0].shell, {end.device for end in ends}
    devices = parse(shell.run(_READ.format(conf=_CONF)).stdout)
    every = devices.pop("all", _Device("all", False, 0, 0))
    old: dict[str, int] = {}
    new: dict[str, int] = {}
    for device in devices.values():
        if (device.may_answer or device.name in own) and max(every.ignore, device.ignore) not in _OWN_ONLY:
            path = f"{_CONF}/{device.name}/arp_ignore"
            old[path], new[path] = device.ignore, _OWN_ONLY[0]
        if device.name in own and max(every.announce, device.announce) < _BEST_ADDRESS:
            path = f"{_CONF}/{device.name}/arp_announce"
            old[path], new[path] = device.announce, _BEST_ADDRESS
    if not new:
        return
    what = f"ARP settings of {shell.name}"
    # A NIC that was unplugged meanwhile has no settings to restore.
    restore = " && ".join(
        f"{{ [ ! -e {shlex.quote(path)} ] || {_write(path, value)}; }}" for path, value in old.items()
    )
    entry = JournalEntry.new(what, restore, JOURNAL)
    undo.add(what, lambda: change(shell, entry.undone()), shell.name)
    done = shell.run(as_root(f"{entry.kept()} && {' && '.join(_write(*one) for one in new.items())}"))
    if done.returncode != 0:
        raise LinkError(
            f"{shell.name} refused arp_ignore=1 and arp_announce=2, without which its NICs answer for each other: "
            f"{reason(done.stderr)}",
            f"on {shell.name}: check that root can write {_CONF} and {JOURNAL}",
        )


def parse(text: str) -> dict[str, _Device]:
    """Return the devices that _READ printed, by name; without devices that have no ARP settings."""
    found = {}
    for name, kind, flags, ignore, announce in (words for line in text.splitlines() if len(words := line.split()) == 5):
        # A device without IPv4 has no such settings.
        if is_count(ignore) and is_count(announce):
            is_up = kind == _ARPHRD_ETHER and bool(_FLAGS.fullmatch(flags)) and bool(int(flags, 16) & _IFF_UP)
            found[name] = _Device(name, is_up, int(ignore), int(announce))
    return found


def _write(path: str, value: int) -> str:
    return f"echo {value} > {shlex.quote(path)}"
