"""What a machine needs to carry emulated boards, besides what every virtual lab needs."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.requirements import require

# Command -> Debian package.
PACKAGES = {
    "depmod": "kmod",
    "mcopy": "mtools",
    "mke2fs": "e2fsprogs",
    "mkfs.vfat": "dosfstools",
    "qemu-system-aarch64": "qemu-system-arm",
}
ANSWER_S = 20.0


def check_commands() -> None:
    """Raises LabError that names the packages of all commands that are missing."""
    require(PACKAGES, "emulated boards need")


@dataclass(frozen=True)
class Devices:
    """What the QEMU of this machine can emulate."""

    version: str
    names: frozenset[str]

    def __contains__(self, device: str) -> bool:
        return device in self.names


def devices() -> Devices:
    """Ask QEMU. Raises LabError when it does not answer."""
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
