"""Packs the kernel's selftests for a board: from a kernel tree with ``make install``, or as someone installed them."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.files import is_file, is_folder
from pytest_pinet.execution.shell import last_line

RUNNER = "run_kselftest.sh"
_SELFTESTS = "tools/testing/selftests"
_TIMEOUT_S = 600.0
# The architecture of the kernel's Makefiles and the usual prefix of its cross compiler, by `uname -m`.
_MACHINES = {
    "aarch64": ("arm64", "aarch64-linux-gnu-"),
    "armv7l": ("arm", "arm-linux-gnueabihf-"),
    "armv6l": ("arm", "arm-linux-gnueabi-"),
    "x86_64": ("x86", "x86_64-linux-gnu-"),
}
# Programs that would be compiled. Empty lists leave the tests that are scripts.
_NO_PROGRAMS = ("TEST_GEN_FILES=", "TEST_GEN_PROGS=", "TEST_GEN_PROGS_EXTENDED=")
FORM = f"a kernel tree, or installed selftests: a folder with {RUNNER}, or an archive of it"


@contextmanager
def packed(source: str, collection: str, machine: str) -> Iterator[Path]:
    """Yield a tar archive with the selftests for a board of this machine (``uname -m``). Raises ConfigError."""
    path = Path(source)
    if is_file(path):
        yield path
        return
    with TemporaryDirectory(prefix="pinet-kselftest-") as temporary:
        folder = path
        if is_file(path / _SELFTESTS / "Makefile"):
            folder = Path(temporary) / "install"
            _install(path, collection, machine, folder)
        if not is_file(folder / RUNNER):
            raise ConfigError(f"{source} has no selftests; expected {FORM}")
        archive = Path(temporary) / "kselftest.tar"
        with tarfile.open(archive, "w", dereference=True) as tar:
            tar.add(folder, ".", filter=lambda one: None if one.issym() else one)
        yield archive


def _install(tree: Path, collection: str, machine: str, folder: Path) -> None:
    if not is_folder(tree / _SELFTESTS / collection):
        raise ConfigError(f"{tree / _SELFTESTS} has no collection {collection}")
    for command in ("make", "rsync"):
        if shutil.which(command) is None:
            raise ConfigError(f"the selftests of {tree} cannot be installed without {command}; apt install {command}")
    argv = ["make", "-C", str(tree / _SELFTESTS), f"TARGETS={collection}", f"INSTALL_PATH={folder}", "install"]
    arch, prefix = _MACHINES.get(machine, (machine, ""))
    if machine != platform.machine():
        argv += [f"ARCH={arch}", f"CROSS_COMPILE={prefix}"]
        argv += () if _compiles(f"{prefix}gcc", folder.parent) else _NO_PROGRAMS
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"make install of {collection} in {tree} did not end within {_TIMEOUT_S:g} s") from None
    if done.returncode or not (folder / RUNNER).is_file():
        raise ConfigError(f"make install of {collection} in {tree} failed: {last_line(done.stderr, done.stdout)}")


def _compiles(compiler: str, folder: Path) -> bool:
    """Return whether a compiler makes programs. Without a C library it fails, and make install leaves out folders."""
    if shutil.which(compiler) is None:
        return False
    argv, program = [compiler, "-x", "c", "-", "-o", str(folder / "program")], b"#include <stdio.h>\nint main() {}\n"
    return subprocess.run(argv, input=program, capture_output=True, check=False, timeout=_TIMEOUT_S).returncode == 0
