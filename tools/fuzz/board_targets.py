"""What boards answer to our commands: their disturbances, boot files, NICs, network managers, and their state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pytest_pinet.doctor import disturbances
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.evidence.preconditions import read
from pytest_pinet.init import machine
from pytest_pinet.lab.deploy.card import parse_boot_report, parse_card
from pytest_pinet.lab.deploy.root_files import parse_boot_needs
from pytest_pinet.lab.labgrid.identity import Heartbeat
from pytest_pinet.lab.link import end as end_module
from pytest_pinet.lab.link import manager
from tests.support.board_answers import CLOCK, Answering
from tools.fuzz.target import Target, as_text, files

IDLE = b"""\
cpu  100 0 50 1000 10 0 5 0 0 0
70.00
eth0 1000 500

cpu  101 0 51 1390 12 0 5 0 0 0
71.00
eth0 1800 600
"""
NEEDS = b"""\
=====8<=====loaded
lan78xx
=====8<=====built_in
kernel/fs/ext4/ext4.ko
=====8<=====modaliases
of:NethernetT(null)Cbrcm,bcm2711-genet-v5
=====8<=====phys
0x600d84a2
=====8<=====mounts
/dev/mmcblk0p2 / ext4 rw,noatime 0 0
server:/root / nfs4 rw,vers=4.2 0 0
=====8<=====root
mmc:block
"""
CARD = b"""\
=====8<=====where
/boot/firmware
=====8<=====files
-rwxr-xr-x 1 0 0 9485312 Nov 21 10:00 ./kernel8.img
-rwxr-xr-x 1 0 0 120 Nov 21 10:00 ./config.txt
=====8<=====space
/dev/mmcblk0p1 522232 77840 444392 15% /boot/firmware
=====8<=====writable
yes
=====8<=====mounts
/dev/mmcblk0p1 /boot/firmware vfat rw,relatime,fmask=0022 0 0
=====8<=====uuid
1234-ABCD
=====8<=====text config.txt
kernel=kernel8.img
include more.txt

"""
BOOT = b"""\
=====8<=====model
Raspberry Pi 4 Model B Rev 1.4
=====8<=====version
Linux version 6.12.25 (x) (y) #1
=====8<=====notes
040000001400000003000000474e5500aabbccddeeff00112233445566778899aabbccdd
=====8<=====revision
00b03114
=====8<=====programs
7f454c4602
=====8<=====boot-mode
00000001
=====8<=====mailbox
0x0000001c 0x80000000 0x00030064 0x00000004 0x80000004 0x00000000 0x00000000
=====8<=====notifier
1
=====8<=====vclog
004063.264: Loading 'kernel8.img' to 0x80000 size 0x1a5da00
"""
ARP = b"all - - 0 0\neth0 1 0x1003 0 2\nlo 772 0x9 0 0\n"
OBSERVED = (
    b"12.34 1000 2000 1 2 up 1000;retransmits 7\n12.44 126000 2000 1 2 up 1000\n12.54 126000 9 0 3 down -1\n"
    b"12.64 4294967295 9 1 4 up 1000\n"
)
STATE = b"""\
nic_speed=5.0 GT/s PCIe
nic_width=1
nic_max_speed=8.0 GT/s PCIe
nic_max_width=8
slot_max_speed=5.0 GT/s PCIe
slot_max_width=1
usb=480
throttled=0x50005
voltage=0
cpu=cpu  100 0 50 1000 10 0 5 0 0 0
cpu_after=cpu  101 0 51 1390 12 0 5 0 0 0
"""


class _Observing(Answering):
    """A board whose observer has printed the text."""

    def spawn(self, command: str) -> _Observing:
        return self

    def lines(self) -> list[str]:
        text, self._answer = self._answer, ""
        return text.splitlines()

    def poll(self) -> int | None:
        return None

    def stop(self) -> None: ...


def _observer(text: str) -> None:
    for changes in (None, 3):
        with Observer(_Observing(text), "eth0", "sw1/p1", 1.0) as observer:  # type: ignore[arg-type]
            if changes is not None:
                observer.accept(changes)
            for value in (observer.rate, observer.retransmits):
                value()
            observer.mean_rate(0.0, 1.0)
            observer.events(0.0)


def _machine(text: str) -> None:
    look, _, route = text.partition("---\n")
    machine.parse(look, None)
    machine.parse_route(route)


_READERS: Mapping[str, tuple[bytes, Callable[[str], object]]] = {
    "clock": (CLOCK.replace("0x0", "0x50005").encode(), lambda text: disturbances.parse_clock(text, 1000.1, 1000.3)),
    "idle board": (IDLE, disturbances.parse_noise),
    "boot needs": (NEEDS, parse_boot_needs),
    "boot files": (CARD, lambda text: parse_card("/boot/firmware", text).named_texts()),
    "boot report": (BOOT, parse_boot_report),
    "ARP": (ARP, end_module.parse_arp),
    "heartbeat": (b"0a1b2c.17.1763712000", Heartbeat.parse),
    "observer": (OBSERVED, _observer),
    "state of an end": (STATE, lambda text: read(Answering(text), "eth0")),  # type: ignore[arg-type]
}
BOARDS: Mapping[str, Target] = {
    **{name: Target(partial(list, [sample]), as_text(read)) for name, (sample, read) in _READERS.items()},
    "machine": Target(files("tests/data/init/*.txt"), as_text(_machine)),
    "network manager": Target(
        files("tests/data/managers/*.txt"),
        as_text(lambda text: (manager.parse(text, {"mgmt0"}), manager.routed(text))),
    ),
}
