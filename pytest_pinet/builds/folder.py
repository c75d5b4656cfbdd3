"""Reads a folder as a build. The name of each file says what it is; files with unknown names are refused."""

from __future__ import annotations

from pathlib import Path

from pytest_pinet.builds.contents import (
    DEVICE_TREE_ENDINGS,
    KERNELS,
    OVERLAYS,
    TARS,
    BuildContents,
    BuildPart,
    add_modules,
    add_package,
)
from pytest_pinet.builds.module import is_module
from pytest_pinet.config.file_text import read_text
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.model.build import BuildFileRole

CONFIG, CMDLINE = "config.txt", "cmdline.txt"
# Files beside a compiled kernel that no board reads.
_BESIDE = ("System.map", "config-", "README", "vmlinux", "Module.symvers", ".")
_INITRAMFS = ("initrd", "initramfs")
ACCEPTED = (
    "a kernel (kernel8.img, Image, vmlinuz...), *.dtb, overlays/*.dtbo, initramfs*, modules*.tar.*, "
    f"lib/modules/RELEASE, *.ko, linux-image*.deb, {CONFIG}, {CMDLINE}, firmware/"
)


def add_folder(parts: BuildContents, folder: Path) -> None:
    """Add all files of a folder. Raises ConfigError."""
    where = Where(str(folder))
    trees_done = False
    for entry in sorted(folder.iterdir()):
        name = entry.name
        if entry.is_dir():
            if name in ("lib", "usr", "modules"):
                if not trees_done:
                    add_modules(parts, folder, where)
                    trees_done = True
            elif name in (OVERLAYS, "broadcom"):
                add_trees(parts, entry, where)
            elif name == "firmware":
                add_firmware(parts, entry, where)
            elif not name.startswith("."):
                raise _unknown(entry)
        elif name == CONFIG:
            parts.config += config_lines(read_text(entry, "lines for config.txt"))
        elif name == CMDLINE:
            parts.cmdline += cmdline_words(read_text(entry, "words for cmdline.txt"), str(entry))
        elif entry.suffix in DEVICE_TREE_ENDINGS:
            parts.files.append(BuildPart(DEVICE_TREE_ENDINGS[entry.suffix], entry, where))
        elif entry.suffix == ".deb":
            add_package(parts, entry, where)
        elif is_module(name) or name.endswith(TARS):
            add_modules(parts, entry, where)
        elif name in KERNELS or name.startswith("vmlinuz-"):
            parts.files.append(BuildPart(BuildFileRole.KERNEL, entry, where))
        elif name.startswith(_INITRAMFS):
            parts.files.append(BuildPart(BuildFileRole.INITRAMFS, entry, where))
        elif not name.startswith(_BESIDE):
            raise _unknown(entry)


def _unknown(entry: Path) -> ConfigError:
    return ConfigError(
        f"nobody knows what to do with {entry.name}; accepted here: {ACCEPTED}", Where(str(entry.parent))
    )


def add_trees(parts: BuildContents, path: Path, where: Where) -> None:
    """Add a device tree or an overlay, or all of a folder. Raises ConfigError."""
    entries = sorted(path.iterdir()) if path.is_dir() else [path]
    for entry in entries:
        if entry.suffix in DEVICE_TREE_ENDINGS:
            parts.files.append(BuildPart(DEVICE_TREE_ENDINGS[entry.suffix], entry, where))
        elif not path.is_dir() or not entry.name.startswith("README"):
            raise ConfigError(f"{entry} is no device tree; expected *.dtb or *.dtbo", where)


def add_firmware(parts: BuildContents, folder: Path, where: Where) -> None:
    """Add the files that drivers load from /lib/firmware, by their path there."""
    for entry in sorted(path for path in folder.rglob("*") if path.is_file()):
        parts.files.append(BuildPart(BuildFileRole.FIRMWARE, entry, where, str(entry.relative_to(folder))))


def config_lines(text: str) -> list[str]:
    """Return the lines of config.txt without comments and blank lines."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def cmdline_words(text: str, file: str) -> list[str]:
    """Return the words of the one line that the firmware reads. Raises ConfigError for a second line."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(lines) > 1:
        message = "a command line is one line, and here begins a second, which no firmware reads"
        raise ConfigError(message, Where(file, lines[1][0]))
    return lines[0][1].split() if lines else []
