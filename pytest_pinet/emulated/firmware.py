"""The stand-in for a Raspberry Pi's firmware: reads the boot partition and says which kernel starts, and how.

It obeys what selects a kernel: ``os_prefix``, ``kernel``, ``initramfs``, ``auto_initramfs``, ``cmdline``,
``device_tree``, the filters of sections, and ``tryboot.txt`` for one boot. As the real one it passes over what it does
not understand.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_pinet.builds.image import is_arm64
from pytest_pinet.errors import LabError
from pytest_pinet.virtual.boot_settings import SETTING, first_line, holding

CONFIG, TRYBOOT = "config.txt", "tryboot.txt"
DEFAULT_KERNEL, DEFAULT_CMDLINE = "kernel8.img", "cmdline.txt"
# kernel8.img -> initramfs8, kernel_2712.img -> initramfs_2712: auto_initramfs of the firmware's documentation.
_KERNEL_NAME, _INITRAMFS_NAME = "kernel", "initramfs"

Read = Callable[[str], bytes | None]


class NoKernel(LabError):
    """There is nothing to start; the board stays dark, as a Raspberry Pi does."""


@dataclass(frozen=True)
class Boot:
    """What starts: ``source`` is the file that said so; ``names`` those of the files that were taken."""

    source: str
    kernel: bytes
    cmdline: str
    initramfs: bytes | None
    names: tuple[str, ...]
    device_tree: bytes | None = None

    def __str__(self) -> str:
        return f"{self.source}: {', '.join(self.names)}"


def choose(read: Read, board: str, tryboot: bool, device_trees: Sequence[str] = ()) -> Boot:
    """What a board boots; ``tryboot`` is the flag that holds for this boot only. Raises NoKernel.

    ``read`` gives a file of the boot partition, or None. Of ``device_trees`` the first that is there is taken, where
    ``device_tree`` names no other; a board without such names needs none.
    """
    source, text = CONFIG, read(CONFIG)
    if tryboot and (tried := read(TRYBOOT)) is not None:
        source, text = TRYBOOT, tried
    settings, ramdisks = parse((text or b"").decode(errors="replace"), board, tryboot)
    prefix = settings.get("os_prefix", "")
    kernel_name = settings.get("kernel", DEFAULT_KERNEL)
    # "os_prefix is applied only if the kernel and the device tree are there": documentation of config.txt.
    kernel = read(prefix + kernel_name)
    if kernel is None and prefix:
        prefix = ""
        kernel = read(kernel_name)
    if kernel is None:
        raise NoKernel(f"{source} asks for {prefix}{kernel_name}, which is not on the boot partition")
    image = _image(kernel, prefix + kernel_name)
    names = [prefix + kernel_name]
    cmdline_name = prefix + settings.get("cmdline", DEFAULT_CMDLINE)
    cmdline = read(cmdline_name)
    if cmdline is not None:
        names.append(cmdline_name)
    wanted = list(ramdisks)
    if not wanted and settings.get("auto_initramfs") == "1" and kernel_name.startswith(_KERNEL_NAME):
        wanted = [_INITRAMFS_NAME + kernel_name.removeprefix(_KERNEL_NAME).removesuffix(".img")]
    parts = [(prefix + name, read(prefix + name)) for name in wanted]
    there = [(name, data) for name, data in parts if data is not None]
    names += [name for name, _ in there]
    initramfs = b"".join(data for _, data in there) if there else None
    device_tree = None
    if device_trees:
        wanted = [prefix + name for name in ([settings["device_tree"]] if "device_tree" in settings else device_trees)]
        found = ((name, data) for name in wanted if (data := read(name)) is not None)
        name, device_tree = next(found, ("", None))
        if device_tree is None:
            raise NoKernel(f"{source} asks for a device tree, and {' or '.join(wanted)} is not on the boot partition")
        names.append(name)
    first = first_line((cmdline or b"").decode(errors="replace"))
    return Boot(source, image, first, initramfs, tuple(names), device_tree)


def parse(text: str, board: str, tryboot: bool) -> tuple[dict[str, str], list[str]]:
    """The settings that hold for this board and boot, of several of one name the last; and what ``initramfs`` names."""
    settings: dict[str, str] = {}
    ramdisks: list[str] = []
    for line in holding(text, board, tryboot):
        if line.startswith("initramfs "):
            # initramfs FILE [followkernel | address]; several files separated by commas are put one behind the other.
            ramdisks = line.split()[1].split(",")
        elif setting := SETTING.match(line):
            settings[setting[1]] = setting[2]
    return settings, ramdisks


def _image(data: bytes, name: str) -> bytes:
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise NoKernel(f"{name} is gzip that cannot be unpacked: {error}") from None
    if not is_arm64(data):
        raise NoKernel(f"{name} is no arm64 kernel")
    return data
