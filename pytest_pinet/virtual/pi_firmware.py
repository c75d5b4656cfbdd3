"""The stand-in for a Raspberry Pi's firmware: read the boot partition and choose the kernel and its command line.

It evaluates config.txt, or tryboot.txt for one boot, with the module that also finds the known-good kernel of a board.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_pinet.builds.config_txt import CONFIG, TRYBOOT, PiModel, evaluate, first_line
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
