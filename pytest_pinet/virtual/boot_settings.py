"""Boot settings of a virtual board, read by the stand-in firmware from the board's boot partition.

The card keeps its contents without power, as on a board: changes in ``/boot/firmware`` apply from the next power-on.
The firmware reads the clock from config.txt and the payload of PCIe packets from cmdline.txt. Other settings are kept
and passed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.builds.config_txt import CMDLINE, CONFIG, evaluate, model_of

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
    settings = evaluate(lambda name: _text(card / name), model_of(None, board)).settings
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


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
