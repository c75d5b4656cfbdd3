"""An SD card as a file: a boot partition (FAT32) and a root file system (ext4), as in Raspberry Pi OS.

On the host, mtools read and write the boot partition. On the board, the kernel's vfat does. Nothing is mounted, so no
step needs root.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.requirements import search_path

SECTOR = 512
BOOT_START = 8192 * SECTOR  # 4 MiB, as in Raspberry Pi OS
BOOT_SIZE = 512 << 20
ROOT_START = BOOT_START + BOOT_SIZE
ROOT_SIZE = 1 << 30
# QEMU accepts only a power of two as the size of an SD card.
CARD_SIZE = 2 << 30
# A guest without the firmware's mailbox (a virtio port) requests tryboot here, before the first partition.
FLAG_AT, FLAG = 1 << 20, b"tryboot"
TOOL_TIMEOUT_S = 120.0
_FAT32_LBA, _LINUX = 0x0C, 0x83


def make_card(card: Path, root: Path, boot: Mapping[str, bytes]) -> None:
    """Write a sparse file with the tree ``root`` and the files of the boot partition. Raises LabError."""
    with card.open("wb") as file:
        file.truncate(CARD_SIZE)
        file.write(_partition_table())
    at, size = str(BOOT_START // SECTOR), str(BOOT_SIZE >> 10)
    tool("mkfs.vfat", "-F", "32", "-n", "bootfs", "-s", "8", "--offset", at, str(card), size)
    # Without root, a user namespace of its own makes our files belong to the board's root.
    mapped = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    extended = f"root_owner=0:0,lazy_itable_init=1,offset={ROOT_START}"
    own = ("-q", "-F", "-t", "ext4", "-L", "rootfs", "-m", "0", "-E", extended, "-d", str(root))
    tool(*mapped, "mke2fs", *own, str(card), f"{ROOT_SIZE >> 10}k")
    write_boot(card, boot)


def write_boot(card: Path, files: Mapping[str, bytes]) -> None:
    """Write files to the boot partition, and make their folders. Raises LabError."""
    for folder in dict.fromkeys(name.rpartition("/")[0] for name in files if "/" in name):
        # -D s skips folders that exist.
        _mtool(card, "mmd", "-D", "s", f"::/{folder}", may_fail=True)
    for name, data in files.items():
        _mtool(card, "mcopy", "-o", "-", f"::/{name}", text=data)


def read_boot(card: Path, name: str) -> bytes | None:
    """Return a file of the boot partition, or None if it does not exist. Raises LabError if the partition is broken."""
    if not list_boot(card, name):
        return None
    return _mtool(card, "mcopy", "-n", f"::/{name}", "-")


def list_boot(card: Path, pattern: str) -> list[str]:
    """Return the names of the matching files on the boot partition."""
    out = _mtool(card, "mdir", "-b", f"::/{pattern}", may_fail=True).decode(errors="replace")
    return [line.removeprefix("::/") for line in out.splitlines() if line.startswith("::/")]


def take_flag(card: Path) -> bool:
    """Return whether the guest has requested tryboot on its card, and clear the request. Raises LabError."""
    try:
        with card.open("r+b") as file:
            file.seek(FLAG_AT)
            found = file.read(len(FLAG)) == FLAG
            if found:
                file.seek(FLAG_AT)
                file.write(bytes(len(FLAG)))
    except OSError as error:
        raise LabError(f"{card} cannot be read: {error}") from None
    return found


def copy_card(image: Path, card: Path) -> None:
    """Copy the image to a board's own card. Raises LabError if the disk has too little space."""
    needed = image.stat().st_blocks * SECTOR
    free = shutil.disk_usage(card.parent).free
    if free < 2 * needed:
        raise LabError(
            f"the card of a board needs {2 * needed >> 20} MiB in {card.parent}, but only {free >> 20} MiB are free",
            f"free disk space there: {2 * needed >> 20} MiB for each board",
        )
    tool("cp", "--sparse=always", "--reflink=auto", str(image), str(card))


def _partition_table() -> bytes:
    """Return a DOS partition table, which UEFI, Raspberry Pis and Linux can all read."""
    entries = b"".join(
        struct.pack("<B3sB3sII", 0, b"\xfe\xff\xff", kind, b"\xfe\xff\xff", start // SECTOR, size // SECTOR)
        for kind, start, size in ((_FAT32_LBA, BOOT_START, BOOT_SIZE), (_LINUX, ROOT_START, ROOT_SIZE))
    )
    return bytes(440) + b"pi\xe7\x01" + bytes(2) + entries + bytes(32) + b"\x55\xaa"


def _mtool(card: Path, tool: str, *words: str, text: bytes | None = None, may_fail: bool = False) -> bytes:
    argv = [tool, "-i", f"{card}@@{BOOT_START}", *words]
    return _run(argv, text, may_fail, {"MTOOLS_SKIP_CHECK": "1"})


def tool(*argv: str) -> None:
    """Run a tool, also one in the administrator's folders (sbin). Raises LabError."""
    _run(argv, None, may_fail=False, environment={})


def _run(argv: Sequence[str], text: bytes | None, may_fail: bool, environment: Mapping[str, str]) -> bytes:
    try:
        done = subprocess.run(
            argv,
            input=text if text is not None else b"",
            capture_output=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
            env={**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8", **environment},
        )
    except FileNotFoundError:
        raise LabError(
            f"this machine has no command {argv[0]}", "apt install dosfstools e2fsprogs kmod mtools"
        ) from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{argv[0]} took more than {TOOL_TIMEOUT_S:g} s on {argv[-1]}") from None
    if done.returncode and not may_fail:
        reason = done.stderr.decode(errors="replace").strip()[-200:]
        raise LabError(f"{argv[0]} failed with exit code {done.returncode}: {reason}")
    return done.stdout
