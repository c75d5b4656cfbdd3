"""Finds QEMU: the machine's own, or a newer one in a folder (``PINET_QEMU``), and builds the plugin for it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from pytest_pinet.errors import CapabilityError, LabError
from pytest_pinet.exact.board import ExactBoard
from pytest_pinet.exact.compile import compiled
from pytest_pinet.exact.store import exact_cache
from pytest_pinet.execution.tool import output

VARIABLE = "PINET_QEMU"
PROGRAM = "qemu-system-aarch64"
ANSWER_S = 20.0
# The first version that may abort if it has a plugin and two processors.
_TWO_MAY_ABORT = (8, 0)


@dataclass(frozen=True)
class Qemu:
    """A QEMU: its command, its environment, its version, and a hash of its program."""

    command: tuple[str, ...]
    version: tuple[int, ...]
    sha256: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def plugin_api(self) -> int:
        """The version of the plugin interface (QEMU_PLUGIN_VERSION in include/qemu/qemu-plugin.h)."""
        newer = ((9, 0), (9, 1), (9, 2))
        return 1 + sum(self.version >= version for version in newer)


@dataclass(frozen=True)
class Plugin:
    """The plugin for a QEMU. ``path`` is None if it could not be built; ``missing`` is then the reason."""

    path: Path | None
    api: int | None
    sha256: str = ""
    missing: str = ""


def find_qemu(board: ExactBoard) -> Qemu:
    """Return the QEMU for a board: that of ``PINET_QEMU``, else the machine's own, else one in the cache.

    Raises LabError if there is none, CapabilityError if it is too old for the board's NIC: its tests are skipped.
    """
    named, unpacked, oldest = os.environ.get(VARIABLE), unpacked_folder(), board.nic.qemu
    program = shutil.which(PROGRAM)
    if named:
        found = qemu_at(Path(named), VARIABLE)
    elif program is not None and ((own := _qemu(Path(program), None)).version >= oldest or not unpacked.is_dir()):
        found = own
    elif unpacked.is_dir():
        found = qemu_at(unpacked, "the cache")
    else:
        raise LabError(
            f"exact boards need {PROGRAM}, which this machine lacks",
            "apt install --no-install-recommends qemu-system-arm",
        )
    if found.version < oldest:
        needed = ".".join(map(str, oldest))
        raise CapabilityError(
            f"the exact board {board.name} needs QEMU {needed}, but {found.command[0]} is QEMU {found.version_text}: "
            "run `pinet emulated qemu`, which unpacks a newer QEMU from Debian's backports, or set "
            f"{VARIABLE} to its program"
        )
    return found


def unpacked_folder() -> Path:
    """Return the folder of the QEMU that ``pinet emulated qemu`` unpacks."""
    return exact_cache() / "qemu"


def qemu_at(path: Path, where: str) -> Qemu:
    """Return the QEMU with this program, or in this folder of unpacked Debian packages. Raises LabError."""
    program = path / "usr" / "bin" / PROGRAM if path.is_dir() else path
    if not program.is_file() or not os.access(program, os.X_OK):
        raise LabError(
            f"{where} names {path}, which is neither {PROGRAM} nor a folder with usr/bin/{PROGRAM}",
            f"set {VARIABLE} to the program or to a folder into which `dpkg-deb -x` unpacked Debian's packages",
        )
    return _qemu(program, path if path.is_dir() else None)


def _qemu(program: Path, folder: Path | None) -> Qemu:
    command, environment = [str(program)], {}
    if folder is not None:
        command += ["-L", str(folder / "usr" / "share" / "qemu")]
        for modules in sorted(folder.glob("usr/lib/*/qemu")):
            environment["QEMU_MODULE_DIR"] = str(modules)
    text = output([str(program), "--version"], ANSWER_S, environment)
    version = re.search(r"version (\d+(?:\.\d+)+)", text)
    if version is None:
        raise LabError(f"`{program} --version` did not print a version, but {text[:60]!r}")
    with program.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Qemu(tuple(command), tuple(int(part) for part in version[1].split(".")), digest, environment)


def plugin_source() -> bytes:
    """Return the source of the plugin."""
    return resources.files("pytest_pinet.exact").joinpath("plugin", "count.c").read_bytes()


def plugin_for(qemu: Qemu, processors: int) -> Plugin:
    """Return the plugin for a board with so many processors. Raises LabError if the cache is unusable.

    QEMU 10.0.2 aborts in ``arm_mmu_idx_el`` if a plugin is loaded and the second processor starts; 7.2.22 does not.
    """
    if not loads_plugins(qemu, processors):
        why = f"with {processors} processors, instructions are counted by function with QEMU 7.2 only: 10.0.2 aborts"
        return Plugin(None, None, missing=why)
    return build_plugin(qemu)


def loads_plugins(qemu: Qemu, processors: int) -> bool:
    """Return whether a board with so many processors runs with any plugin."""
    return processors == 1 or qemu.version < _TWO_MAY_ABORT


def build_plugin(qemu: Qemu) -> Plugin:
    """Return the plugin, built by ``cc`` if the cache does not have it. Raises LabError if the cache is unusable."""
    api = qemu.plugin_api
    try:
        path, digest = compiled({"count.c": plugin_source()}, api)
    except CapabilityError as error:
        return Plugin(None, None, missing=f"instructions are not counted by function: {error.message}")
    return Plugin(path, api, digest)
