"""The boot files of a board as its known-good build has them, and the texts that boot another build beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.lab.deploy.room import free_bytes
from pytest_pinet.lab.deploy.way import Refused
from pytest_pinet.model.build import MARKER, Build, Role
from pytest_pinet.shell import Shell, as_root
from pytest_pinet.tuning.boot_files import CMDLINE, CONFIG
from pytest_pinet.tuning.files import reason

# Everything of ours on a boot partition is in here, or has this in its name.
OURS = "pytest-pinet"
TRYBOOT = "tryboot.txt"
KERNEL, INITRAMFS = "kernel8.img", "initramfs8"
HEADER = "# By pytest-pinet: boots a build under test once; config.txt is what boots otherwise"
# What the firmware starts when config.txt names no kernel, newest boards first.
_DEFAULTS = ("kernel_2712.img", "kernel8.img", "kernel7l.img", "kernel7.img", "kernel.img")
# Lines that say where the known-good build's files are.
_PLACES = re.compile(r"\s*(?:(?:os_prefix|kernel|cmdline|ramfsfile|auto_initramfs)\s*=|initramfs\s)")
_MARK = "=====8<====="


@dataclass(frozen=True)
class Card:
    """A folder that a firmware boots from. ``files`` are the sizes by name, ``free`` bytes are left there."""

    folder: str
    config: str
    cmdline: str
    files: Mapping[str, int] = field(default_factory=dict)
    free: int = 0
    writable: bool = True

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that config.txt may start and that are there; those that it names come first."""
        named = re.findall(r"^\s*kernel\s*=\s*(\S+)", self.config, re.MULTILINE)
        return tuple(dict.fromkeys(name for name in (*named, *_DEFAULTS) if name in self.files))

    @property
    def initramfs(self) -> str | None:
        """The initramfs that the known-good build loads; None where it loads none, or it is not there."""
        named = re.findall(r"^\s*(?:initramfs\s+|ramfsfile\s*=\s*)([^\s,]+)", self.config, re.MULTILINE)
        automatic = re.search(r"^\s*auto_initramfs\s*=\s*1\b", self.config, re.MULTILINE)
        names = [*named, *(INITRAMFS, "initramfs_2712") * bool(automatic)]
        return next((name for name in names if name in self.files), None)

    @property
    def device_trees(self) -> tuple[str, ...]:
        return tuple(name for name in self.files if name.endswith(".dtb"))


def read_card(shell: Shell, folders: tuple[str, ...]) -> Card:
    """What stands in the first of these folders that a firmware boots from. Raises Refused, SshError."""
    for folder in folders:
        done = shell.run(
            as_root(
                f"cd {folder} 2>/dev/null && [ -f {CONFIG} ] || exit 3; cat {CONFIG}; echo '{_MARK}';"
                f" cat {CMDLINE} 2>/dev/null; echo '{_MARK}'; ls -lnL; echo '{_MARK}'; df -kP . | tail -n 1;"
                f" echo '{_MARK}'; if [ -w . ]; then echo yes; fi; echo '{_MARK}'; cat autoboot.txt 2>/dev/null"
            )
        )
        parts = done.stdout.split(f"{_MARK}\n")
        if len(parts) < 6:
            if done.returncode not in (0, 3):
                raise Refused(f"{shell.name} does not let {folder} be read: {reason(done.stderr)}")
            continue
        if re.search(r"^\s*tryboot_a_b\s*=\s*1", parts[5], re.MULTILINE):
            raise Refused(f"{shell.name} tries whole partitions (tryboot_a_b=1 in autoboot.txt), not {TRYBOOT}")
        return Card(folder, parts[0], parts[1], _sizes(parts[2]), free_bytes(parts[3]) or 0, parts[4].strip() == "yes")
    raise Refused(f"{shell.name} has no {CONFIG} in {' or '.join(folders)}: no firmware of a Raspberry Pi boots it")


def _sizes(listing: str) -> dict[str, int]:
    """Of the files of ``ls -ln``."""
    found = {}
    for line in listing.splitlines():
        words = line.split(None, 8)
        if len(words) == 9 and words[0].startswith("-") and words[4].isdigit():
            found[words[8]] = int(words[4])
    return found


def folder_of(build: Build) -> str:
    """Of a build's files, below the folder that the firmware boots from."""
    return f"{OURS}/{build.key}"


def tryboot_text(card: Card, build: Build, initramfs: bool) -> str:
    """config.txt with this build's files in place of the known-good ones."""
    kept = [line for line in card.config.splitlines() if not _PLACES.match(line)]
    lines = [f"os_prefix={folder_of(build)}/", f"kernel={KERNEL}", f"cmdline={CMDLINE}"]
    lines += [f"initramfs {INITRAMFS} followkernel"] if initramfs else []
    if build.kernel is not None:
        lines.append(f"arm_64bit={int(build.kernel.arch == 'arm64')}")
    return "\n".join([HEADER, *kept, "", "[all]", *lines, *build.config, ""])


def cmdline_text(card: Card, build: Build) -> str:
    """The known-good build's line, with what this build adds, and its mark."""
    words = card.cmdline.partition("\n")[0].split()
    firmware = [f"firmware_class.path={firmware_folder(build)}"] if build.of(Role.FIRMWARE) else []
    options = [f"{module}.{parameter}={value}" for module, parameter, value in build.options]
    more = [*build.cmdline, *options, *firmware, f"{MARKER}={build.key}"]
    return " ".join([*words, *(word for word in more if word not in words)]) + "\n"


def firmware_folder(build: Build) -> str:
    """Where a build's firmware for drivers is, on the board's own file system: the known-good's stays as it is."""
    return f"/var/lib/{OURS}/{build.key}/firmware"
