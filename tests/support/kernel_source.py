"""The source of Debian's kernel, and builds of small kernels from it. Needs no root."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.emulated.image import cache, locked
from pytest_pinet.emulated.packages import Apt
from pytest_pinet.errors import LabError
from tests.support.driver_builds import CROSS, TOOLS

NEEDED = (*TOOLS, "flex", "bison", "bc")
_PACKAGE = "linux-source-6.1"
# Five minutes of processor time.
BUILD_TIMEOUT_S = 3000.0


def run(*argv: str | Path, timeout_s: float = BUILD_TIMEOUT_S) -> None:
    """Run a command. Raises CalledProcessError, TimeoutExpired."""
    subprocess.run([str(word) for word in argv], timeout=timeout_s, check=True)


def unpacked_source(folder: Path) -> Path:
    """Unpack the source of Debian's kernel, which has 1.5 GB, into a folder. Skips the test if it is not here."""
    with locked(cache()):
        apt = Apt(cache() / "apt", print)
        try:
            apt.update()
            package = apt.fetch(_PACKAGE)
        except LabError as error:
            pytest.skip(f"the source of the kernel is not here: {error}")
        run("dpkg-deb", "-x", package, folder / "package")
        package.unlink()
    run("tar", "-C", folder, "-xJf", next((folder / "package").rglob("*.tar.xz")))
    shutil.rmtree(folder / "package")
    return folder / _PACKAGE


def make(source: Path, out: Path) -> list[str]:
    """Return the command that builds for arm64 from ``source`` in ``out``."""
    return ["make", "-s", "-C", str(source), f"O={out}", "ARCH=arm64", f"CROSS_COMPILE={CROSS}"]


def configure(source: Path, out: Path, options: str) -> None:
    """Configure a kernel with these lines of a configuration, and nothing else that they do not need."""
    asked = out.with_suffix(".config")
    asked.write_text(options)
    run(*make(source, out), f"KCONFIG_ALLCONFIG={asked}", "allnoconfig")
