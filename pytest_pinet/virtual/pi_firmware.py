"""The stand-in for a Raspberry Pi's firmware: read the boot partition and choose the kernel and its command line.

It evaluates config.txt, or tryboot.txt for one boot, with the module that also finds the known-good kernel of a board.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_pinet.builds.config_txt import CMDLINE, CONFIG, TRYBOOT, PiModel, evaluate, first_line, model_of
from pytest_pinet.builds.kernel_files import is_arm64
from pytest_pinet.errors import LabError

Read = Callable[[str], bytes | None]


class NoKernel(LabError):
    """No kernel can be started. The board stays dark, as a Raspberry Pi does."""


@dataclass(frozen=True)
class BootChoice:
    """The files and settings of a boot: ``source`` is the settings file, ``names`` are the names of the files used."""

    source: str
    kernel: bytes
    cmdline: str
    initramfs: bytes | None
    names: tuple[str, ...]
    device_tree: bytes | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.source}: {', '.join(self.names)}"


def choose(read: Read, model: PiModel, tryboot: bool, device_trees: Sequence[str] = ()) -> BootChoice:
    """Choose what a board boots. ``tryboot`` is the flag for this boot only. Raises NoKernel.

    ``read`` returns a file of the boot partition, or None. The first existing file of ``device_trees`` is used, unless
    the setting ``device_tree`` names another. Without ``device_trees``, no device tree is loaded.
    """
    source = TRYBOOT if tryboot and read(TRYBOOT) is not None else CONFIG

    def text(name: str) -> str | None:
        data = read(name)
        return None if data is None else data.decode(errors="replace")

    def content(name: str) -> bytes:
        return read(name) or b""

    config = evaluate(text, model, source, tryboot)
    boots = config.files(lambda name: read(name) is not None, device_trees)
    if not boots:
        wanted = " or ".join(config.possible_kernels())
        raise NoKernel(f"{source} names the kernel {wanted}, which is not on the boot partition")
    boot = boots[0]
    if device_trees and boot.device_tree is None:
        wanted = config.settings.get("device_tree") or " or ".join(device_trees)
        raise NoKernel(f"the board needs a device tree: {wanted} is missing on the boot partition")
    cmdline = text(boot.cmdline)
    names = [boot.kernel, *[boot.cmdline] * (cmdline is not None), *boot.initramfs]
    names += [boot.device_tree] if boot.device_tree is not None else []
    return BootChoice(
        source,
        _image(content(boot.kernel), boot.kernel),
        first_line(cmdline or ""),
        b"".join(map(content, boot.initramfs)) if boot.initramfs else None,
        tuple(names),
        None if boot.device_tree is None else content(boot.device_tree),
        config.settings,
    )


def _image(data: bytes, name: str) -> bytes:
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise NoKernel(f"{name} contains damaged gzip data: {error}") from None
    if not is_arm64(data):
        raise NoKernel(f"{name} is not an arm64 kernel")
    return data


# Boot settings of a virtual board, read by the stand-in firmware from the board's boot partition.
#
# The card keeps its contents without power, as on a board: changes in ``/boot/firmware`` apply from the next boot. The
# firmware reads the clock from config.txt (tryboot.txt in a trial boot) and the payload of PCIe packets from the
# kernel's command line. Other settings are kept and passed on. The card's kernel is a file with the identity of the
# kernel that all virtual boards share.


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
