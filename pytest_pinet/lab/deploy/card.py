"""The boot files of a board's known-good build, and the texts that boot another build beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_pinet.execution.shell import Shell, as_root
from pytest_pinet.lab.deploy.commands import free_bytes
from pytest_pinet.lab.deploy.deploy_target import Refused
from pytest_pinet.model.build import MARKER, Build, BuildFileRole
from pytest_pinet.tuning.boot_files import CMDLINE, CONFIG
from pytest_pinet.tuning.files import reason

# All our files on a boot partition are in this folder or have it in their names.
OURS = "pytest-pinet"
TRYBOOT = "tryboot.txt"
KERNEL, INITRAMFS = "kernel8.img", "initramfs8"
HEADER = "# By pytest-pinet: boots a build under test once; every other boot uses config.txt"
# The kernels that the firmware starts when config.txt names no kernel, newest boards first.
_DEFAULTS = ("kernel_2712.img", "kernel8.img", "kernel7l.img", "kernel7.img", "kernel.img")
# Lines that name the files of the known-good build.
_PLACES = re.compile(r"\s*(?:(?:os_prefix|kernel|cmdline|ramfsfile|auto_initramfs)\s*=|initramfs\s)")
_MARK = "=====8<====="


@dataclass(frozen=True)
class Card:
    """A folder from which the firmware boots. ``files`` has the sizes by name; ``free`` is the free space in bytes."""

    folder: str
    config: str
    cmdline: str
    files: Mapping[str, int] = field(default_factory=dict)
    free: int = 0
    writable: bool = True

    @property
    def kernels(self) -> tuple[str, ...]:
        """The existing kernels that config.txt may start; the kernels that it names come first."""
        named = re.findall(r"^\s*kernel\s*=\s*(\S+)", self.config, re.MULTILINE)
        return tuple(dict.fromkeys(name for name in (*named, *_DEFAULTS) if name in self.files))

    @property
    def initramfs(self) -> str | None:
        """The initramfs that the known-good build loads; None if it loads none, or if the file does not exist."""
        named = re.findall(r"^\s*(?:initramfs\s+|ramfsfile\s*=\s*)([^\s,]+)", self.config, re.MULTILINE)
        automatic = re.search(r"^\s*auto_initramfs\s*=\s*1\b", self.config, re.MULTILINE)
        names = [*named, *(INITRAMFS, "initramfs_2712") * bool(automatic)]
        return next((name for name in names if name in self.files), None)

    @property
    def device_trees(self) -> tuple[str, ...]:
        return tuple(name for name in self.files if name.endswith(".dtb"))


def read_card(shell: Shell, folders: tuple[str, ...]) -> Card:
    """Return the content of the first of these folders from which a firmware boots. Raises Refused, SshError."""
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
                raise Refused(f"{shell.name} refuses to read {folder}: {reason(done.stderr)}")
            continue
        if re.search(r"^\s*tryboot_a_b\s*=\s*1", parts[5], re.MULTILINE):
            raise Refused(f"{shell.name} has tryboot_a_b=1 in autoboot.txt, so its firmware ignores {TRYBOOT}")
        return Card(folder, parts[0], parts[1], _sizes(parts[2]), free_bytes(parts[3]) or 0, parts[4].strip() == "yes")
    raise Refused(f"{shell.name} has no {CONFIG} in {' or '.join(folders)}, so no firmware of a Raspberry Pi boots it")


def _sizes(listing: str) -> dict[str, int]:
    """Return the sizes of the files in the output of ``ls -ln``."""
    found = {}
    for line in listing.splitlines():
        words = line.split(None, 8)
        if len(words) == 9 and words[0].startswith("-") and words[4].isdigit():
            found[words[8]] = int(words[4])
    return found


def folder_of(build: Build) -> str:
    """Return the folder of a build's files, relative to the folder from which the firmware boots."""
    return f"{OURS}/{build.key}"


def tryboot_text(card: Card, build: Build, initramfs: bool) -> str:
    """Return config.txt with this build's files in place of the known-good ones."""
    kept = [line for line in card.config.splitlines() if not _PLACES.match(line)]
    lines = [f"os_prefix={folder_of(build)}/", f"kernel={KERNEL}", f"cmdline={CMDLINE}"]
    lines += [f"initramfs {INITRAMFS} followkernel"] if initramfs else []
    if build.kernel is not None:
        lines.append(f"arm_64bit={int(build.kernel.arch == 'arm64')}")
    return "\n".join([HEADER, *kept, "", "[all]", *lines, *build.config, ""])


def cmdline_text(card: Card, build: Build) -> str:
    """Return the known-good build's command line, with this build's additions and its mark."""
    words = card.cmdline.partition("\n")[0].split()
    firmware = [f"firmware_class.path={firmware_folder(build)}"] if build.of(BuildFileRole.FIRMWARE) else []
    options = [f"{module}.{parameter}={value}" for module, parameter, value in build.options]
    more = [*build.cmdline, *options, *firmware, f"{MARKER}={build.key}"]
    return " ".join([*words, *(word for word in more if word not in words)]) + "\n"


def firmware_folder(build: Build) -> str:
    """Return the folder of a build's driver firmware on the board's root file system.

    The known-good firmware is unchanged.
    """
    return f"/var/lib/{OURS}/{build.key}/firmware"
