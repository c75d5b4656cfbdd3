"""The stand-in for a Raspberry Pi's firmware: read the boot partition and choose the kernel and its command line.

It supports the settings that select a kernel: ``os_prefix``, ``kernel``, ``initramfs``, ``auto_initramfs``,
``cmdline``, ``device_tree``, the section filters, and ``tryboot.txt`` for one boot. It ignores other settings, as the
real firmware ignores unknown ones.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_pinet.builds.image import is_arm64
from pytest_pinet.errors import LabError
from pytest_pinet.virtual.boot_settings import active_lines, first_line, settings_of

CONFIG, TRYBOOT = "config.txt", "tryboot.txt"
DEFAULT_KERNEL, DEFAULT_CMDLINE = "kernel8.img", "cmdline.txt"
# Rule of auto_initramfs in the firmware's documentation: kernel8.img -> initramfs8, kernel_2712.img ->
# initramfs_2712.
_KERNEL_NAME, _INITRAMFS_NAME = "kernel", "initramfs"

Read = Callable[[str], bytes | None]


class NoKernel(LabError):
    """No kernel can be started. The board stays dark, as a Raspberry Pi does."""


@dataclass(frozen=True)
class BootChoice:
    """The files of a boot: ``source`` is the settings file, ``names`` are the names of the files used."""

    source: str
    kernel: bytes
    cmdline: str
    initramfs: bytes | None
    names: tuple[str, ...]
    device_tree: bytes | None = None

    def __str__(self) -> str:
        return f"{self.source}: {', '.join(self.names)}"


def choose(read: Read, board: str, tryboot: bool, device_trees: Sequence[str] = ()) -> BootChoice:
    """Choose what a board boots. ``tryboot`` is the flag for this boot only. Raises NoKernel.

    ``read`` returns a file of the boot partition, or None. The first existing file of ``device_trees`` is used, unless
    the setting ``device_tree`` names another. Without ``device_trees``, no device tree is loaded.
    """
    source, text = CONFIG, read(CONFIG)
    if tryboot and (tried := read(TRYBOOT)) is not None:
        source, text = TRYBOOT, tried
    settings, ramdisks = parse((text or b"").decode(errors="replace"), board, tryboot)
    prefix = settings.get("os_prefix", "")
    kernel_name = settings.get("kernel", DEFAULT_KERNEL)
    # Documentation of config.txt: os_prefix is applied only if the kernel and the device tree exist.
    kernel = read(prefix + kernel_name)
    if kernel is None and prefix:
        prefix = ""
        kernel = read(kernel_name)
    if kernel is None:
        raise NoKernel(f"{source} names the kernel {prefix}{kernel_name}, which is not on the boot partition")
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
            raise NoKernel(f"the board needs a device tree: {' or '.join(wanted)} is missing on the boot partition")
        names.append(name)
    first = first_line((cmdline or b"").decode(errors="replace"))
    return BootChoice(source, image, first, initramfs, tuple(names), device_tree)


def parse(text: str, board: str, tryboot: bool) -> tuple[dict[str, str], list[str]]:
    """Return the settings for this board and boot (the last of equal names), and the files of ``initramfs``."""
    ramdisks: list[str] = []
    for line in active_lines(text, board, tryboot):
        if line.startswith("initramfs "):
            # initramfs FILE [followkernel | address]. Several files, separated by commas, are concatenated.
            ramdisks = line.split()[1].split(",")
    return settings_of(text, board, tryboot), ramdisks


def _image(data: bytes, name: str) -> bytes:
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise NoKernel(f"{name} contains damaged gzip data: {error}") from None
    if not is_arm64(data):
        raise NoKernel(f"{name} is not an arm64 kernel")
    return data
