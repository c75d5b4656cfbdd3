"""Boot settings of a virtual board, read by the stand-in firmware from the board's boot partition.

The card keeps its contents without power, as on a board: changes in ``/boot/firmware`` apply from the next boot. The
firmware reads the clock from config.txt (tryboot.txt in a trial boot) and the payload of PCIe packets from the kernel's
command line. Other settings are kept and passed on. The card's kernel is a file with the identity of the kernel that
all virtual boards share.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.builds.config_txt import CMDLINE, CONFIG, evaluate, model_of
from pytest_pinet.virtual.pi_firmware import choose

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
_ROOT = "root=/dev/mmcblk0p2"
_CMDLINE = f"console=serial0,115200 console=tty1 {_ROOT} rootfstype=ext4 fsck.repair=yes rootwait\n"
# The header of an arm64 image (Documentation/arch/arm64/booting.rst), without code.
_IMAGE_HEADER = bytes(0x38) + b"ARM\x64" + bytes(4)


@dataclass(frozen=True)
class BootSettings:
    """Clock of the processor, largest PCIe payload in bytes, ``cmdline`` of the kernel, and settings of config.txt.

    ``trial``: tryboot.txt was read instead of config.txt.
    """

    clock_mhz: int
    payload: int = USUAL_PAYLOAD
    cmdline: str = _CMDLINE.strip()
    config: tuple[tuple[str, str], ...] = ()
    trial: bool = False

    @property
    def panics(self) -> bool:
        """Whether the kernel does not find its root file system. The last parameter ``root=`` counts."""
        roots = [word for word in self.cmdline.split() if word.startswith("root=")]
        return bool(roots) and roots[-1] != _ROOT

    def answers(self) -> dict[str, str]:
        """Return the values that ``vcgencmd get_config`` reports, by name."""
        return {**dict(self.config), "arm_freq": str(self.clock_mhz)}


def write_card(card: Path, board: str) -> None:
    """Write the files of a fresh image for this board to the card, unless they exist."""
    card.mkdir(parents=True, exist_ok=True)
    for name, text in ((CONFIG, _CONFIG), (CMDLINE, _CMDLINE)):
        if not (card / name).exists():
            (card / name).write_text(text)
    kernel, *_ = evaluate(lambda name: _CONFIG if name == CONFIG else None, model_of(None, board)).possible_kernels()
    # Always, because this machine may have booted another kernel since.
    (card / kernel).write_bytes(_IMAGE_HEADER + Path("/proc/version").read_bytes())


def read_card(card: Path, board: str, clock_mhz: int, tryboot: bool = False) -> BootSettings:
    """Return the boot settings that this board's firmware reads from its card. ``clock_mhz`` is the stock clock.

    ``tryboot`` requests tryboot.txt. Unknown settings are ignored, as by the real firmware. Raises NoKernel.
    """
    boot = choose(lambda name: _content(card / name), model_of(None, board), tryboot)
    clock = boot.settings.get("arm_freq", "")
    words = [word.partition("=") for word in boot.cmdline.split()]
    pci = {option for name, _, value in words if name == "pci" for option in value.split(",")}
    return BootSettings(
        int(clock) if clock.isdecimal() and int(clock) else clock_mhz,
        LARGEST_PAYLOAD if _PERFORMANCE in pci else USUAL_PAYLOAD,
        boot.cmdline,
        tuple(boot.settings.items()),
        boot.source != CONFIG,
    )


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
