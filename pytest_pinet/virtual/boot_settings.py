"""What a virtual board boots with: the files of its boot partition, and what the stand-in firmware makes of them.

The card stays when the power goes, as on a board: whatever is written to ``/boot/firmware`` holds from the next
power-on. Of config.txt the clock is read, of cmdline.txt the payload of PCIe packets; the rest is kept and passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONFIG, CMDLINE = "config.txt", "cmdline.txt"
# PCIe payloads (MPS) in bytes: as the firmware of these boards leaves them, and as `pci=pcie_bus_perf` makes them.
USUAL_PAYLOAD, LARGEST_PAYLOAD = 128, 512
_PERFORMANCE = "pcie_bus_perf"

_CONFIG = """\
# For more options and information see http://rptl.io/configtxt
# Some settings may impact device functionality. See link above for details

dtparam=audio=on
arm_64bit=1

[all]
"""
_CMDLINE = "console=serial0,115200 console=tty1 root=/dev/mmcblk0p2 rootfstype=ext4 fsck.repair=yes rootwait\n"
# What the firmware's parser takes of a line, after which it stops reading.
_LONGEST_LINE = 98
SETTING = re.compile(r"([A-Za-z0-9_]+)\s*=\s*([^#\s]*)")
_SECTION = re.compile(r"\[([^\]]*)\]")
# The filters of config.txt, and how the names of the boards begin that they let through.
_FILTERS = {
    "pi02": ("zero2",),
    "pi1": ("pib",),
    "pi2": ("pi2",),
    "pi3": ("pi3", "cm3"),
    "pi3+": ("pi3b+", "pi3a+"),
    "pi4": ("pi4", "cm4"),
    "pi400": ("pi400",),
    "cm4": ("cm4",),
    "pi5": ("pi5", "cm5"),
    "pi500": ("pi500",),
    "cm5": ("cm5",),
}


@dataclass(frozen=True)
class BootSettings:
    """Clock of the processor, and the largest payload of a PCIe packet, in bytes; ``cmdline`` is the kernel's."""

    clock_mhz: int
    payload: int = USUAL_PAYLOAD
    cmdline: str = _CMDLINE.strip()
    config: tuple[tuple[str, str], ...] = ()

    def answers(self) -> dict[str, str]:
        """What ``vcgencmd get_config`` tells, by name."""
        return {**dict(self.config), "arm_freq": str(self.clock_mhz)}


def write_card(card: Path) -> None:
    """Put the files of a fresh image on the card, unless there is one."""
    card.mkdir(parents=True, exist_ok=True)
    for name, text in ((CONFIG, _CONFIG), (CMDLINE, _CMDLINE)):
        if not (card / name).exists():
            (card / name).write_text(text)


def read_card(card: Path, board: str, clock_mhz: int) -> BootSettings:
    """What the firmware of this board makes of its card; ``clock_mhz`` is the stock clock.

    As the real one it passes over what it does not understand; without a card it boots with the usual settings.
    """
    settings = _settings(_text(card / CONFIG), board)
    asked = settings.get("arm_freq", "")
    cmdline = first_line(_text(card / CMDLINE))
    words = [word.partition("=") for word in cmdline.split()]
    pci = {option for name, _, value in words if name == "pci" for option in value.split(",")}
    return BootSettings(
        int(asked) if asked.isdecimal() and int(asked) else clock_mhz,
        LARGEST_PAYLOAD if _PERFORMANCE in pci else USUAL_PAYLOAD,
        cmdline,
        tuple(settings.items()),
    )


def first_line(cmdline: str) -> str:
    """What the kernel gets of cmdline.txt."""
    return next(iter(cmdline.splitlines()), "").strip()


def holding(config: str, board: str, tryboot: bool = False) -> Iterator[str]:
    """The lines of a config.txt that hold for this board and boot, by the sections in which they stand."""
    here = True
    for full in config.splitlines():
        line = full.strip()[:_LONGEST_LINE]
        if section := _SECTION.fullmatch(line):
            name = section[1].strip().lower()
            here = name == "all" or (tryboot and name == "tryboot") or board.startswith(_FILTERS.get(name, ()))
        elif here:
            yield line


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _settings(text: str, board: str) -> dict[str, str]:
    """The settings that hold for this board; of several of one name the last."""
    settings = (setting for line in holding(text, board) if (setting := SETTING.match(line)))
    return {setting[1]: setting[2] for setting in settings}
