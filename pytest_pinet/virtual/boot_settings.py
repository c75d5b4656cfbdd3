"""Boot settings of a virtual board, read by the stand-in firmware from the board's boot partition.

The card keeps its contents without power, as on a board: changes in ``/boot/firmware`` apply from the next power-on.
The firmware reads the clock from config.txt and the payload of PCIe packets from cmdline.txt. Other settings are kept
and passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONFIG, CMDLINE = "config.txt", "cmdline.txt"
# PCIe payloads (MPS) in bytes: the firmware's default on these boards, and the value with `pci=pcie_bus_perf`.
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
# The firmware's parser ignores the rest of a longer line.
_LONGEST_LINE = 98
_SETTING = re.compile(r"([A-Za-z0-9_]+)\s*=\s*([^#\s]*)")
_SECTION = re.compile(r"\[([^\]]*)\]")
# The section filters of config.txt, and the prefixes of the boards that they apply to.
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
    """Clock of the processor, largest PCIe payload in bytes, ``cmdline`` of the kernel, and settings of config.txt."""

    clock_mhz: int
    payload: int = USUAL_PAYLOAD
    cmdline: str = _CMDLINE.strip()
    config: tuple[tuple[str, str], ...] = ()

    def answers(self) -> dict[str, str]:
        """Return the values that ``vcgencmd get_config`` reports, by name."""
        return {**dict(self.config), "arm_freq": str(self.clock_mhz)}


def write_card(card: Path) -> None:
    """Write the files of a fresh image to the card, unless they exist."""
    card.mkdir(parents=True, exist_ok=True)
    for name, text in ((CONFIG, _CONFIG), (CMDLINE, _CMDLINE)):
        if not (card / name).exists():
            (card / name).write_text(text)


def read_card(card: Path, board: str, clock_mhz: int) -> BootSettings:
    """Return the boot settings that this board's firmware reads from its card. ``clock_mhz`` is the stock clock.

    Unknown settings are ignored, as by the real firmware. Without a card, the board boots with the default settings.
    """
    settings = settings_of(_text(card / CONFIG), board)
    clock = settings.get("arm_freq", "")
    cmdline = first_line(_text(card / CMDLINE))
    words = [word.partition("=") for word in cmdline.split()]
    pci = {option for name, _, value in words if name == "pci" for option in value.split(",")}
    return BootSettings(
        int(clock) if clock.isdecimal() and int(clock) else clock_mhz,
        LARGEST_PAYLOAD if _PERFORMANCE in pci else USUAL_PAYLOAD,
        cmdline,
        tuple(settings.items()),
    )


def first_line(cmdline: str) -> str:
    """Return the first line of cmdline.txt, the only line that the kernel gets."""
    return next(iter(cmdline.splitlines()), "").strip()


def active_lines(config: str, board: str, tryboot: bool = False) -> Iterator[str]:
    """Return the lines of config.txt in the sections that apply to this board and boot."""
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


def settings_of(config: str, board: str, tryboot: bool = False) -> dict[str, str]:
    """Return the settings of config.txt for this board and boot. The last of equal names counts."""
    settings = (setting for line in active_lines(config, board, tryboot) if (setting := _SETTING.match(line)))
    return {setting[1]: setting[2] for setting in settings}
