"""Evaluate config.txt for one Raspberry Pi model as its firmware does: sections, includes, and the files of a boot.

The deployment uses it to find the known-good kernel, and the stand-in firmware to choose what boots. Sources: the pages
"config.txt" of the Raspberry Pi documentation (boot options, conditional filters), and the issues that comments name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from pydantic import TypeAdapter

from pytest_pinet.catalogue.load import read_data

CONFIG, CMDLINE, TRYBOOT, AUTOBOOT = "config.txt", "cmdline.txt", "tryboot.txt", "autoboot.txt"
# raspberrypi/firmware issue 1669: text after this column was read as another line.
LONGEST_LINE = 98
# The firmware follows includes of included files. A file that includes itself, also many times, must not hang the
# evaluation.
_DEEPEST_INCLUDE = 5
_MOST_INCLUDES = 100
_SECTION = re.compile(r"\[([^\]]*)\]")
# The firmware ignores a line with a blank before or after the equals sign.
_SETTING = re.compile(r"([A-Za-z0-9_]+)=([^#\s]*)")
_INCLUDE = re.compile(r"include\s+(\S+)")
_INITRAMFS = re.compile(r"initramfs\s+(\S+)")
# Kernels for arm64 among the default names.
_WIDE = ("kernel8.img", "kernel_2712.img")
_MODEL_FILTER = re.compile(r"(?:pi|cm)[0-9]+[0-9a-z]*\+?")

Exists = Callable[[str], bool]
ReadText = Callable[[str], str | None]


@dataclass(frozen=True)
class PiModel:
    """What the firmware knows of a model; catalogue/raspberry_pi_models.yaml explains the fields and has their values.

    ``serial``, ``board_type`` and the ``partition`` of its boot belong to one board; None if they are not known.
    """

    filters: frozenset[str]
    kernels: tuple[str, ...]
    device_trees: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ("arm64", "arm")
    titles: tuple[str, ...] = ()
    serial: int | None = None
    board_type: int | None = None
    partition: int | None = None

    @property
    def is_pi5(self) -> bool:
        return "pi5" in self.filters


# A board of a lab file, such as an emulated one: no section filter applies, and the first existing kernel boots.
OTHER = PiModel(frozenset(), ("kernel8.img", "kernel_2712.img", "kernel7l.img", "kernel7.img", "kernel.img"))


@cache
def pi_models() -> Mapping[str, PiModel]:
    """Return the models of the catalogue by name. They are read once."""
    models = TypeAdapter(dict[str, PiModel]).validate_python(read_data("raspberry_pi_models.yaml"))
    return MappingProxyType(models)


def model_of(
    title: str | None, board: str, serial: str | None = None, revision: int | None = None, partition: int | None = None
) -> PiModel:
    """Return the model by its title in the device tree, else by the board's name in the catalogue, else ``OTHER``.

    ``serial`` is the serial number in hexadecimal, ``revision`` the revision code of the board, ``partition`` the
    number of the partition that its firmware booted from.
    """
    names = {known: name for name, model in pi_models().items() for known in model.titles}
    fitting = [known for known in names if title and title.startswith(known)]
    name = names[max(fitting, key=len)] if fitting else board
    # A section [0x12345678] compares the last 8 digits. Bits 4 to 11 of a revision code are the type of the board.
    number = int(serial[-8:], 16) if serial and re.fullmatch(r"[0-9a-fA-F]+", serial) else None
    kind = revision >> 4 & 0xFF if revision is not None and revision >> 23 & 1 else None
    return replace(pi_models().get(name, OTHER), serial=number, board_type=kind, partition=partition)


@dataclass(frozen=True)
class BootFileNames:
    """The files of a boot, relative to the boot partition."""

    kernel: str
    cmdline: str
    initramfs: tuple[str, ...]
    device_tree: str | None
    prefix: str = ""


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
        narrow = tuple(name for name in self.model.kernels if name not in _WIDE)
        return ("kernel8.img",) if wide else narrow

    def files(
        self, exists: Exists, device_trees: Sequence[str] | None = None, kernels: Sequence[str] | None = None
    ) -> tuple[BootFileNames, ...]:
        """Return the possible boots whose kernel exists, in the firmware's order.

        ``device_trees`` and ``kernels`` replace the names of the model; without any name of a device tree the firmware
        needs none.
        """
        trees = self.model.device_trees if device_trees is None else tuple(device_trees)
        if self.settings.get("upstream_kernel") == "1":
            trees = trees[::-1]  # The firmware prefers the names of the mainline kernel, which stand last.
        if "device_tree" in self.settings:
            trees = (self.settings["device_tree"],)
        names = self.possible_kernels() if kernels is None else kernels
        found = (self._boot(name, exists, trees) for name in names)
        return tuple(boot for boot in found if exists(boot.kernel))

    def _boot(self, kernel: str, exists: Exists, trees: Sequence[str]) -> BootFileNames:
        upstream = "upstream/" if self.settings.get("upstream_kernel") == "1" else ""
        prefix = plain_prefix(self.settings.get("os_prefix", upstream))
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
        )

    def _automatic(self, kernel: str) -> tuple[str, ...]:
        """Return the file of ``auto_initramfs=1``: kernel8.img -> initramfs8, kernel_2712.img -> initramfs_2712."""
        name = kernel.rpartition("/")[2]
        if self.settings.get("auto_initramfs") != "1" or not name.startswith("kernel"):
            return ()
        return (f"initramfs{name.removeprefix('kernel').removesuffix('.img')}",)


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


def with_includes(read: ReadText, source: str, follow: bool = True) -> Iterator[str]:
    """Return the lines of a file without comments and empty lines.

    ``follow``: each ``include`` is replaced by its file.
    """
    return _lines(read, source, follow, 0, iter(range(_MOST_INCLUDES)))


def _lines(read: ReadText, source: str, follow: bool, depth: int, includes: Iterator[int]) -> Iterator[str]:
    for full in (read(source) or "").splitlines():
        line = full.strip()[:LONGEST_LINE].rstrip()
        if not line or line.startswith("#"):
            continue
        if follow and (included := _INCLUDE.match(line)):
            if depth < _DEEPEST_INCLUDE and next(includes, None) is not None:
                yield from _lines(read, included[1], follow, depth + 1, includes)
        else:
            yield line


def plain_prefix(prefix: str) -> str:
    """Return a value of os_prefix as the beginning of a path in the boot folder: /new// and new/ are the same."""
    return re.sub("//+", "/", prefix).removeprefix("/")


def first_line(cmdline: str) -> str:
    """Return the first line of cmdline.txt, the only line that the kernel gets."""
    return next(iter(cmdline.splitlines()), "").strip()


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
        return "serial", model.serial is not None and _number(name) == model.serial
    if key == "board-type" and equals:
        return "board-type", model.board_type is not None and _number(value) == model.board_type
    if key in ("partition", "boot_partition") and equals:
        return key, key == "boot_partition" and _number(value) == model.partition
    if (key.startswith("gpio") or key == "EDID") and equals:
        return key, False
    if _MODEL_FILTER.fullmatch(name) and any(name in known.filters for known in pi_models().values()):
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
