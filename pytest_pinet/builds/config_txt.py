"""Evaluate config.txt for one Raspberry Pi model as its firmware does: sections, includes, and the files of a boot.

The deployment uses it to find the known-good kernel, and the stand-in firmware to choose what boots. Sources: the pages
"config.txt" of the Raspberry Pi documentation (boot options, conditional filters), and the issues that comments name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

CONFIG, CMDLINE, TRYBOOT, AUTOBOOT = "config.txt", "cmdline.txt", "tryboot.txt", "autoboot.txt"
# raspberrypi/firmware issue 1669: text after this column was read as another line.
LONGEST_LINE = 98
# The firmware follows includes of included files; a file that includes itself must not hang the evaluation.
_DEEPEST_INCLUDE = 5
_SECTION = re.compile(r"\[([^\]]*)\]")
# The firmware ignores a line with a blank before or after the equals sign.
_SETTING = re.compile(r"([A-Za-z0-9_]+)=([^#\s]*)")
_INCLUDE = re.compile(r"include\s+(\S+)")
_INITRAMFS = re.compile(r"initramfs\s+(\S+)")
_MODEL_FILTER = re.compile(r"(?:pi|cm)[0-9]+[0-9a-z]*\+?")
# Kernel names that also say whether the processor starts in 64-bit mode.
_BITS = {"kernel.img": 32, "kernel7.img": 32, "kernel7l.img": 32, "kernel8.img": 64, "kernel_2712.img": 64}

Exists = Callable[[str], bool]
ReadText = Callable[[str], str | None]


@dataclass(frozen=True)
class PiModel:
    """What the firmware knows of a model: section filters that apply, default kernels and names of its device tree.

    ``kernels`` are tried in this order if config.txt chooses neither a kernel nor the mode of the processor.
    """

    filters: frozenset[str]
    kernels: tuple[str, ...]
    device_trees: tuple[str, ...] = ()
    serial: int | None = None
    board_type: int | None = None
    partition: int | None = None

    @property
    def is_pi5(self) -> bool:
        return "pi5" in self.filters

    @property
    def architectures(self) -> tuple[str, ...]:
        """The architectures of kernels that its processor and its firmware can start."""
        if self.is_pi5:
            return ("arm64",)
        # ARM1176 (Pi 1, Zero) and Cortex-A7 (Pi 2 before revision 1.2) have no 64-bit mode.
        narrow = self.kernels == ("kernel.img",) or _PI2_TREE in self.device_trees[:1]
        return ("arm",) if narrow else ("arm64", "arm")


def _model(filters: str, kernels: str, *device_trees: str) -> PiModel:
    return PiModel(frozenset(filters.split()), tuple(kernels.split()), device_trees)


_PI2_TREE = "bcm2709-rpi-2-b.dtb"
_PI4_KERNELS = "kernel8.img kernel7l.img"  # firmware of before 2023 starts kernel7l.img on a Pi 4
_PI5_KERNELS = "kernel_2712.img kernel8.img"
# By the names of boards in catalogue/boards.yaml, and models that are not there. Device trees: the names in
# raspberrypi/linux, then in the mainline kernel (for upstream_kernel=1).
MODELS = {
    "pib": _model("pi1", "kernel.img", "bcm2708-rpi-b-plus.dtb", "bcm2708-rpi-b.dtb", "bcm2835-rpi-b.dtb"),
    "pi0": _model("pi0", "kernel.img", "bcm2708-rpi-zero.dtb", "bcm2835-rpi-zero.dtb"),
    "pi0w": _model("pi0 pi0w", "kernel.img", "bcm2708-rpi-zero-w.dtb", "bcm2835-rpi-zero-w.dtb"),
    "pi2b": _model("pi2", "kernel7.img", _PI2_TREE, "bcm2836-rpi-2-b.dtb"),
    # Revision 1.2 has the processor of a Pi 3.
    "pi2b-1.2": _model("pi2", "kernel7.img", "bcm2710-rpi-2-b.dtb", _PI2_TREE, "bcm2837-rpi-2-b.dtb"),
    "pi3b": _model("pi3", "kernel7.img", "bcm2710-rpi-3-b.dtb", "bcm2837-rpi-3-b.dtb"),
    "pi3b+": _model("pi3 pi3+", "kernel7.img", "bcm2710-rpi-3-b-plus.dtb", "bcm2837-rpi-3-b-plus.dtb"),
    "pi3a+": _model("pi3 pi3+", "kernel7.img", "bcm2710-rpi-3-b-plus.dtb", "bcm2837-rpi-3-a-plus.dtb"),
    "cm3": _model("pi3 cm3", "kernel7.img", "bcm2710-rpi-cm3.dtb", "bcm2837-rpi-cm3-io3.dtb"),
    "cm3+": _model("pi3 cm3 cm3+", "kernel7.img", "bcm2710-rpi-cm3.dtb", "bcm2837-rpi-cm3-io3.dtb"),
    "cm0": _model("pi0 pi0w pi02 cm0", "kernel7.img", "bcm2710-rpi-cm0.dtb"),
    "zero2w": _model(
        "pi0 pi0w pi02", "kernel7.img", "bcm2710-rpi-zero-2-w.dtb", "bcm2710-rpi-zero-2.dtb", "bcm2837-rpi-zero-2-w.dtb"
    ),
    "pi4b": _model("pi4", _PI4_KERNELS, "bcm2711-rpi-4-b.dtb"),
    "pi400": _model("pi4 pi400", _PI4_KERNELS, "bcm2711-rpi-400.dtb"),
    "cm4": _model("pi4 cm4", _PI4_KERNELS, "bcm2711-rpi-cm4.dtb", "bcm2711-rpi-cm4-io.dtb"),
    "cm4s": _model("pi4 cm4s", _PI4_KERNELS, "bcm2711-rpi-cm4s.dtb"),
    "pi5": _model("pi5", _PI5_KERNELS, "bcm2712-rpi-5-b.dtb", "bcm2712d0-rpi-5-b.dtb"),
    "pi500": _model("pi5 pi500", _PI5_KERNELS, "bcm2712-rpi-500.dtb"),
    "cm5": _model(
        "pi5 cm5", _PI5_KERNELS, "bcm2712-rpi-cm5-cm5io.dtb", "bcm2712-rpi-cm5-cm4io.dtb", "bcm2712-rpi-cm5l-cm5io.dtb"
    ),
}
# Parts of /proc/device-tree/model; the first that occurs counts.
_TITLES = (
    ("Compute Module 5", "cm5"),
    ("Compute Module 4S", "cm4s"),
    ("Compute Module 4", "cm4"),
    ("Compute Module 3 Plus", "cm3+"),
    ("Compute Module 3", "cm3"),
    ("Compute Module 0", "cm0"),
    ("Pi 500", "pi500"),
    ("Pi 400", "pi400"),
    ("Pi 5", "pi5"),
    ("Pi 4", "pi4b"),
    ("Pi 3 Model B Plus", "pi3b+"),
    ("Pi 3 Model A Plus", "pi3a+"),
    ("Pi 3", "pi3b"),
    ("Pi 2 Model B Rev 1.2", "pi2b-1.2"),
    ("Pi 2", "pi2b"),
    ("Pi Zero 2", "zero2w"),
    ("Pi Zero W", "pi0w"),
    ("Pi Zero", "pi0"),
    ("Pi Model", "pib"),
    ("Pi Compute Module", "pib"),
)


# A board of a lab file, such as an emulated one: no section filter applies, and the first existing kernel boots.
OTHER = _model("", "kernel8.img kernel_2712.img kernel7l.img kernel7.img kernel.img")


def model_of(
    title: str | None, board: str, serial: str | None = None, revision: int | None = None, partition: int | None = None
) -> PiModel:
    """Return the model by its title in the device tree, else by the board's name in the catalogue, else ``OTHER``.

    ``serial`` is the serial number in hexadecimal, ``revision`` the revision code of the board, ``partition`` the
    number of the partition that its firmware booted from.
    """
    name = next((name for part, name in _TITLES if title and part in title), board)
    # A section [0x12345678] compares the last 8 digits. Bits 4 to 11 of a revision code are the type of the board.
    number = int(serial[-8:], 16) if serial and re.fullmatch(r"[0-9a-fA-F]+", serial) else None
    kind = revision >> 4 & 0xFF if revision is not None and revision >> 23 & 1 else None
    return replace(MODELS.get(name, OTHER), serial=number, board_type=kind, partition=partition)


@dataclass(frozen=True)
class BootFileNames:
    """The files of a boot, relative to the boot partition. ``bits`` is 32 or 64; None if the model leaves no choice."""

    kernel: str
    cmdline: str
    initramfs: tuple[str, ...]
    device_tree: str | None
    prefix: str = ""
    bits: int | None = None


@dataclass(frozen=True)
class ConfigTxt:
    """The settings of config.txt that apply to one model in one boot, and the files of the last ``initramfs`` line."""

    settings: Mapping[str, str]
    ramdisks: tuple[str, ...]
    model: PiModel

    def possible_kernels(self) -> tuple[str, ...]:
        """Return the kernel names that the firmware may start, in its order. Which one also depends on its age."""
        named = self.settings.get("kernel")
        if named:
            return (named,)
        bits = self.settings.get("arm_64bit")
        if self.model.is_pi5 or not self.model.filters or bits is None:
            return self.model.kernels
        wide = bits != "0" and "arm64" in self.model.architectures
        return ("kernel8.img",) if wide else (self.model.kernels[-1],)

    def files(self, exists: Exists, device_trees: Sequence[str] | None = None) -> tuple[BootFileNames, ...]:
        """Return the possible boots whose kernel exists, in the firmware's order.

        ``device_trees`` replaces the model's names; without any name the firmware needs no device tree.
        """
        trees = self.model.device_trees if device_trees is None else tuple(device_trees)
        if self.settings.get("upstream_kernel") == "1":
            trees = trees[::-1]  # The firmware prefers the names of the mainline kernel, which stand last.
        if "device_tree" in self.settings:
            trees = (self.settings["device_tree"],)
        found = (self._boot(name, exists, trees) for name in self.possible_kernels())
        return tuple(boot for boot in found if exists(boot.kernel))

    def _boot(self, kernel: str, exists: Exists, trees: Sequence[str]) -> BootFileNames:
        prefix = self.settings.get("os_prefix", "upstream/" if self.settings.get("upstream_kernel") == "1" else "")
        # The firmware ignores a prefix under which the kernel or the device tree does not exist.
        if not exists(_path(prefix, kernel)) or (trees and not any(exists(_path(prefix, tree)) for tree in trees)):
            prefix = ""
        ramdisks = self.ramdisks or self._automatic(kernel)
        there = tuple(path for path in (_path(prefix, name) for name in ramdisks) if exists(path))
        return BootFileNames(
            _path(prefix, kernel),
            _path(prefix, self.settings.get("cmdline") or CMDLINE),
            there,
            next((path for path in (_path(prefix, tree) for tree in trees) if exists(path)), None),
            prefix,
            self._bits(kernel),
        )

    def _automatic(self, kernel: str) -> tuple[str, ...]:
        """Return the file of ``auto_initramfs=1``: kernel8.img -> initramfs8, kernel_2712.img -> initramfs_2712."""
        name = kernel.rpartition("/")[2]
        if self.settings.get("auto_initramfs") != "1" or not name.startswith("kernel"):
            return ()
        return (f"initramfs{name.removeprefix('kernel').removesuffix('.img')}",)

    def _bits(self, kernel: str) -> int | None:
        if self.model.is_pi5:
            return None
        default = 64 if self.settings.get("arm_64bit", "0") != "0" else 32
        if "arm_64bit" not in self.settings and "pi4" in self.model.filters:
            default = 64
        return _BITS.get(kernel.rpartition("/")[2], default)


def evaluate(read: ReadText, model: PiModel, source: str = CONFIG, tryboot: bool = False) -> ConfigTxt:
    """Return the settings of ``source`` for a model; the last of equal names counts. A missing file is empty.

    ``read`` returns the text of a file of the boot partition, or None. ``tryboot`` is the flag of this boot.
    """
    settings: dict[str, str] = {}
    ramdisks: tuple[str, ...] = ()
    for line in active_lines(read, model, source, tryboot):
        if found := _INITRAMFS.match(line):
            # initramfs FILE[,FILE...] [followkernel | address]. The firmware loads several files one after the other.
            ramdisks = tuple(found[1].split(","))
        elif found := _SETTING.match(line):
            settings[found[1]] = found[2]
            if found[1] == "ramfsfile":
                ramdisks = tuple(found[2].split(","))
    return ConfigTxt(settings, ramdisks, model)


def active_lines(read: ReadText, model: PiModel, source: str, tryboot: bool) -> Iterator[str]:
    """Return the lines in the sections that apply, with the lines of included files."""
    # Filters of one kind replace each other, and filters of different kinds must all apply.
    applies: dict[str, bool] = {}
    for line in with_includes(read, source):
        if section := _SECTION.fullmatch(line):
            if section[1] == "all":
                applies.clear()
            else:
                kind, here = _filter(section[1], model, tryboot)
                applies[kind] = here
        elif all(applies.values()):
            yield line


def with_includes(read: ReadText, source: str, follow: bool = True, depth: int = 0) -> Iterator[str]:
    """Return the lines of a file without comments and empty lines.

    ``follow``: each ``include`` is replaced by its file.
    """
    for full in (read(source) or "").splitlines():
        line = full.strip()[:LONGEST_LINE].rstrip()
        if not line or line.startswith("#"):
            continue
        if follow and (included := _INCLUDE.match(line)):
            if depth < _DEEPEST_INCLUDE:
                yield from with_includes(read, included[1], follow, depth + 1)
        else:
            yield line


def _filter(name: str, model: PiModel, tryboot: bool) -> tuple[str, bool]:
    """Return the kind of a section filter, and whether it applies. An undefined filter does not filter.

    Conditions of a display, a pin or a requested partition are unknown here, and count as not fulfilled.
    """
    key, equals, value = name.partition("=")
    if name == "none":
        return "none", False
    if name == "tryboot":
        return "tryboot", tryboot
    if name.startswith("0x"):
        return "serial", _number(name) == model.serial
    if key == "board-type" and equals:
        return "board-type", _number(value) == model.board_type
    if key in ("partition", "boot_partition") and equals:
        return key, key == "boot_partition" and _number(value) == model.partition
    if (key.startswith("gpio") or key == "EDID") and equals:
        return key, False
    if _MODEL_FILTER.fullmatch(name) and any(name in known.filters for known in MODELS.values()):
        return "model", name in model.filters
    return f"undefined {name}", True


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _path(prefix: str, name: str) -> str:
    """Return the path of a file. A name that begins with a slash bypasses the prefix."""
    return name[1:] if name.startswith("/") else prefix + name
