"""Requirements of emulated boards on this machine, in addition to the requirements of every virtual lab."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.requirements import require

# Debian package of each command.
PACKAGES = {
    "depmod": "kmod",
    "mcopy": "mtools",
    "mke2fs": "e2fsprogs",
    "mkfs.vfat": "dosfstools",
    "qemu-system-aarch64": "qemu-system-arm",
}
ANSWER_S = 20.0


def check_commands() -> None:
    """Raise LabError if commands are missing. The error names their packages."""
    require(PACKAGES, "emulated boards need")


@dataclass(frozen=True)
class Devices:
    """The devices that the QEMU of this machine can emulate."""

    version: str
    names: frozenset[str]

    def __contains__(self, device: str) -> bool:
        return device in self.names


def devices() -> Devices:
    """Read QEMU's version and devices. Raises LabError if QEMU does not answer."""
    text = _ask("-M", "virt", "-device", "help")
    version = re.search(r"version (\S+)", _ask("--version"))
    return Devices(version[1] if version else "?", frozenset(re.findall(r'^name "([^"]+)"', text, re.MULTILINE)))


def _ask(*words: str) -> str:
    try:
        done = subprocess.run(
            ["qemu-system-aarch64", *words], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"qemu-system-aarch64 {' '.join(words)} did not end within {ANSWER_S:g} s") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise LabError(
            f"`qemu-system-aarch64 {' '.join(words)}` failed ({done.returncode}): {said}",
            "see that the qemu packages of this machine are of one version",
        )
    return done.stdout
