"""Finds QEMU: the machine's own, or a newer one in a folder (``PINET_QEMU``); compiles plugins; has room for guests.

A newer QEMU is unpacked from Debian's backports beside the installed one, without root.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from pytest_pinet.emulated.image import locked
from pytest_pinet.emulated.packages import Apt, machine_sources
from pytest_pinet.errors import CapabilityError, LabError
from pytest_pinet.exact.board import ExactBoard
from pytest_pinet.exact.store import exact_cache
from pytest_pinet.execution.shell import output

COMPILE_S = 60.0
# Warnings change no plugin: another compiler may have others.
_FLAGS = ("-shared", "-fPIC", "-pthread", "-O2")


def compiled(sources: Mapping[str, bytes], api: int) -> tuple[Path, str]:
    """Return the plugin of these sources, the first of which includes the others, and the hash of all it was made of.

    Raises CapabilityError if this machine cannot compile it, LabError if the cache is unusable.
    """
    flags = [*_FLAGS, f"-DAPI={api}"]
    made_of = [*flags, sys.platform, os.uname().machine]
    whole = hashlib.sha256("\0".join(made_of).encode())
    for name, text in sorted(sources.items()):
        whole.update(b"\0" + name.encode() + b"\0" + text)
    digest = whole.hexdigest()
    first = next(iter(sources))
    kept = exact_cache() / f"{Path(first).stem}-{api}-{digest[:16]}.so"
    if kept.is_file():
        return kept, digest
    compiler = shutil.which("cc")
    if compiler is None:
        raise CapabilityError("this machine has no C compiler: `apt install gcc libc6-dev`")
    with locked(exact_cache()), tempfile.TemporaryDirectory(dir=exact_cache()) as folder:
        for name, text in sources.items():
            (Path(folder) / name).write_bytes(text)
        draft = Path(folder) / "plugin.so"
        try:
            output([compiler, *flags, "-o", str(draft), str(Path(folder) / first)], COMPILE_S)
        except LabError as error:
            raise CapabilityError(f"{first} was not compiled: {error.message}") from None
        draft.replace(kept)
    return kept, digest


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


_PACKAGES = ("qemu-system-arm", "qemu-system-common", "qemu-system-data")
UNPACK_S = 300.0


def unpack_newer_qemu(report: Callable[[str], None]) -> Path:
    """Return the folder of a QEMU from Debian's backports. It uses the installed libraries. Raises LabError."""
    folder = unpacked_folder()
    with locked(exact_cache(), report):
        apt = Apt(exact_cache() / "apt", report, _run("dpkg", "--print-architecture").strip())
        apt.update()
        backports = f"{machine_sources()[0].release.partition('-')[0]}-backports"
        packages = [apt.fetch(f"{name}/{backports}") for name in _PACKAGES]
        draft = folder.with_suffix(".draft")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            for package in packages:
                report(f"unpacking {package.name}")
                _run("dpkg-deb", "-x", str(package), str(draft))
            qemu = qemu_at(draft, "the package")
            shutil.rmtree(folder, ignore_errors=True)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        for package in packages:
            package.unlink()
    report(f"QEMU {qemu.version_text}")
    return folder / "usr" / "bin" / PROGRAM


def _run(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        raise LabError(f"this machine has no command {argv[0]}", "run this command on a Debian machine")
    return output(argv, UNPACK_S)


_POLL_S = 0.2
_ROOT = Path("/")


class Room:
    """The guests that run at the same time. The others wait. One guest always has room."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # The memory of each guest that runs, in octets.
        self._running: list[int] = []
        self._most = self._free = 0

    @contextmanager
    def guest(self, memory: int, check: Callable[[], None]) -> Iterator[None]:
        """Wait for room for a guest with so many octets of memory. An error of ``check`` ends the wait."""
        with self._changed:
            while not self._fits(memory):
                self._changed.wait(_POLL_S)
                check()
            self._running.append(memory)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(memory)
                self._changed.notify_all()

    def _fits(self, memory: int) -> bool:
        if not self._running:
            # Not later: memory that a guest has not touched yet seems to be free.
            self._most, self._free = usable_processors(), free_memory()
            return True
        return len(self._running) < self._most and sum(self._running) + memory <= self._free


def usable_processors() -> int:
    """Return how many processors this process can use, by its affinity and by the quotas of its control groups."""
    counts = [float(len(os.sched_getaffinity(0)))]
    for group in _groups("cpu"):
        # Version 2 of control groups has both in one file. No quota is "max" in version 2 and -1 in version 1.
        words = [*_words(group / "cpu.max"), *_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
        if len(words) == 2 and words[0].isdigit():
            counts.append(int(words[0]) / int(words[1]))
    return max(1, int(min(counts)))


def free_memory() -> int:
    """Return the octets of memory that are free, at most the limit of the control groups of this process."""
    free = re.search(r"^MemAvailable: +(\d+) kB$", (_ROOT / "proc/meminfo").read_text(), re.MULTILINE)
    assert free is not None
    limits = [int(free[1]) << 10]
    for group in _groups("memory"):
        words = [*_words(group / "memory.max"), *_words(group / "memory.limit_in_bytes")]
        limits += [int(word) for word in words if word.isdigit()]
    return min(limits)


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of the control groups of this process that can limit it, and of their parents."""
    for line in _lines(_ROOT / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        top = _ROOT / "sys/fs/cgroup"
        if controllers:
            # Version 1: each controller has its own tree.
            top /= controller
        if not controllers or controller in controllers.split(","):
            own = top / path.lstrip("/")
            yield from (group for group in (own, *own.parents) if group.is_relative_to(top))


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it cannot be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
