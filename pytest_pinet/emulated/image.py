"""The card image that each emulated board gets a copy of. It is cached by user, under the hash of its recipe."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TextIO

from pytest_pinet.emulated.card import make_card
from pytest_pinet.emulated.machine import MACHINES
from pytest_pinet.emulated.packages import WANTED, Apt, KernelPackage
from pytest_pinet.emulated.rootfs import BUSYBOX, SYSTEMD, System, initramfs, make_root
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.files import cache_home
from pytest_pinet.execution.shell import output
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual.requirements import require

# Debian's name for the newest kernel of its release. A board boots this kernel until another one is deployed.
KERNEL = "linux-image-arm64"
# A package that only depends on others has a few kB, a kernel about 60 MB.
LARGEST_META = 1 << 20
CONFIG = """\
# The settings of an emulated board, read by its stand-in firmware as a Raspberry Pi's reads them.
arm_64bit=1
auto_initramfs=1

[all]
"""
# Source files that are part of the recipe: a change in them makes a new card.
_RECIPE = ("card.py", "image.py", "packages.py", "rootfs.py")

# Cards of other recipes that the cache keeps.
KEPT = 4
# Longer than a card, a download or two exact boots take on a slow machine.
LOCK_S = 3600.0
_POLL_S = 0.1
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
# A card of a board that was not written to for this time is abandoned. A running lab writes to the cards of its
# boards, and a lab that ends removes them.
FORGOTTEN_AFTER_S = 7 * 86_400.0

Report = Callable[[str], None]


def recipe(system: System = BUSYBOX) -> str:
    """Return a hash of everything that the card is made from, except the versions of the packages."""
    made_of = [asdict(system), WANTED, KERNEL, CONFIG, _device_trees()]
    digest = hashlib.sha256(json.dumps(made_of).encode())
    folder = resources.files("pytest_pinet.emulated")
    names = [folder.joinpath(name) for name in _RECIPE]
    names += sorted(folder.joinpath("guest").iterdir(), key=lambda entry: entry.name)
    for entry in names:
        digest.update(entry.read_bytes())
    return digest.hexdigest()[:16]


def card_image(report: Report, system: System = BUSYBOX) -> Path:
    """Return the card image. If it does not exist, make it from Debian's packages. Raises LabError."""
    folder = cache() / recipe(system)
    image = folder / "card.img"
    if not image.exists():
        with locked(cache(), report):
            if not image.exists():
                try:
                    _make(folder, system, report)
                except LabError as error:
                    message = "emulated boards need a card image, and `pinet emulated card` cannot make it here"
                    raise LabError(f"{message}: {error.message}", error.act) from error
            forget_old(cache())
    with suppress(OSError):  # the card belongs to another user
        os.utime(image)  # the cache keeps the last used cards
    return image


def kernel_package(name: str, report: Report) -> Path:
    """Fetch a Debian kernel package. ``linux-image-arm64``, without a version, is the newest. Raises LabError."""
    with locked(cache(), report):
        apt = _updated_apt(report)
        return apt.ask_once(name, lambda: _kernel_package(apt, name))


def _kernel_package(apt: Apt, name: str) -> Path:
    fetched = apt.fetch(name)
    if fetched.stat().st_size > LARGEST_META:
        return fetched
    # This package only depends on the kernel package.
    return _only_kernel(name, apt.closure([name]))


def kernels(report: Report) -> list[str]:
    """Return the newest kernel of each series and flavour in the machine's sources, the oldest series first."""
    with locked(cache(), report):
        apt = _updated_apt(report)
        names = apt.names(r"^linux-image-[0-9][^ ]*-arm64(-16k)?$")
    found = {}
    for name in sorted(names, key=_numbers):
        flavour = re.sub(r"^linux-image-[0-9.]+[-+]?(deb)?[0-9]*", "", name)
        found[(*_numbers(name)[:2], flavour)] = name
    return list(found.values())


def cache() -> Path:
    """Return the folder of cards and packages: ``$XDG_CACHE_HOME/pinet/emulated``."""
    return cache_home() / "pinet" / "emulated"


@contextmanager
def locked(folder: Path, say: Report = lambda _: None, timeout_s: float = LOCK_S) -> Iterator[int]:
    """Lock a folder of the cache for this process. ``say`` gets the process for which this one waits.

    Yields the descriptor of the lock: a process that inherits it keeps the lock, too.

    Raises LabError if the folder cannot be written, or if another process keeps the lock for ``timeout_s``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a+")
    except OSError as error:
        raise _unwritable(folder, error) from None
    with lock:
        _take(lock, folder, say, timeout_s)
        try:
            yield lock.fileno()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise _unwritable(folder, error) from None


def _take(lock: TextIO, folder: Path, say: Report, timeout_s: float) -> None:
    """Lock an open file, and write the number of this process into it."""
    deadline, holder = Deadline(timeout_s), ""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            lock.seek(0)
            who = f"process {lock.read().strip() or 'of another user'}"
        if who != holder:
            holder = who
            say(f"waiting for {holder}, which fills {folder}")
        if deadline.expired:
            raise LabError(
                f"waited {timeout_s:.0f} s for {folder}, which {holder} fills",
                "wait until this process has ended, or end it",
            )
        time.sleep(_POLL_S)
    with suppress(OSError):  # no space is left: only the number is missing
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()


def _unwritable(folder: Path, error: OSError) -> LabError:
    where = f" ({error.filename})" if error.filename else ""
    return LabError(
        f"{folder}, a cache of pinet, cannot be written: {error.strerror}{where}",
        "free disk space there, or set XDG_CACHE_HOME to another folder",
    )


def forget_old(folder: Path) -> None:
    """Remove old cards. Keep the last used ones, since several checkouts of one user may each have another recipe.

    Also remove the boards' cards of labs that were never stopped. The caller must have locked the cache.
    """
    for draft in folder.glob("*.draft"):
        shutil.rmtree(draft, ignore_errors=True)
    found = sorted(folder.glob("*/card.img"), key=lambda path: path.stat().st_mtime)
    for image in found[:-KEPT]:
        shutil.rmtree(image.parent, ignore_errors=True)
    for lab in folder.glob("cards/*"):
        with suppress(OSError):
            last = max(path.stat().st_mtime for path in [lab, *lab.glob("*/card.img")])
            if last < time.time() - FORGOTTEN_AFTER_S:
                shutil.rmtree(lab)


def _device_trees() -> list[str]:
    """Return the names of all device trees that the firmware of any machine accepts."""
    return sorted(name for machine in MACHINES.values() for name in machine.device_trees)


def _numbers(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", name.removesuffix("-arm64"))]


def _only_kernel(name: str, packages: Sequence[Path]) -> Path:
    """Return the one package that holds a kernel, and not only a dependency on one. Raises LabError."""
    found = [p for p in packages if p.name.startswith("linux-image-") and p.stat().st_size > LARGEST_META]
    if len(found) != 1:
        raise LabError(
            f"the Debian package {name} depends on {len(found)} packages with a kernel, expected one: "
            f"{', '.join(path.name for path in found) or 'none'}",
            "choose another one: `pinet emulated kernel` lists the kernel packages",
        )
    return found[0]


def _updated_apt(report: Report) -> Apt:
    apt = Apt(cache() / "apt", report)
    apt.update()
    return apt


def _make(folder: Path, system: System, report: Report) -> None:
    apt = _updated_apt(report)
    packages = apt.closure([*system.packages, KERNEL])
    kernel_file = _only_kernel(KERNEL, packages)
    others = [path for path in packages if not path.name.startswith("linux-")]
    report(f"making a card from {len(others)} packages and {kernel_file.name}")
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        root = draft / "root"
        make_root(root, others, system)
        kernel = KernelPackage(kernel_file)
        kernel.install_modules(root, system.modules)
        boot = {
            "config.txt": CONFIG.encode(),
            "kernel8.img": kernel.image(),
            "initramfs8": initramfs(root, kernel.release),
            **kernel.device_trees(_device_trees()),
        }
        make_card(draft / "card.img", root, boot)
        shutil.rmtree(root)
        made_of = {"kernel": kernel.release, "packages": [path.name for path in packages]}
        (draft / "made-of.json").write_text(json.dumps(made_of, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


# Check and make what emulated boards need before power-on: tools, QEMU's devices, and a card.


# The script ``system-packages`` of the virtual lab, which installs them, reads the same file.
COMMANDS = Path(__file__).with_name("board-commands")
ANSWER_S = 20.0


def prepare(lab: Lab, report: Report) -> Path:
    """Return the card image that each emulated board of this lab gets a copy of.

    Raises ConfigError for a NIC that QEMU does not have, LabError for missing tools or devices.
    """
    needed = {}
    for node in lab.nodes.values():
        if node.machine is None or not node.is_emulated:
            continue
        machine = MACHINES[node.machine]
        for interface in node.interfaces:
            driver = interface.nic.driver
            if driver not in machine.nics:
                raise ConfigError(
                    f"QEMU's machine {machine.name} has no NIC for the driver {driver!r} of '{interface.nic.name}'; "
                    f"accepted drivers: {', '.join(sorted(machine.nics))}",
                    interface.where,
                )
            needed[interface] = machine.nics[driver]
    check_commands()
    version, offered = qemu_devices()
    for interface, device in needed.items():
        if device not in offered:
            raise LabError(
                f"QEMU {version} on this machine cannot emulate {device}, which the lab file requires for {interface}",
                "install a newer QEMU (igb needs 8.0, as in Debian's backports), or remove the NIC from the lab file",
            )
    # One image for all boards of a lab.
    managed = any(node.manager is not None for node in lab.nodes.values())
    return card_image(report, SYSTEMD if managed else BUSYBOX)


def check_commands() -> None:
    """Raise LabError if commands are missing. The error names their packages."""
    require(COMMANDS, "emulated boards need")


def qemu_devices() -> tuple[str, frozenset[str]]:
    """Return QEMU's version and the devices that it can emulate. Raises LabError if QEMU fails."""
    text = _output("-M", "virt", "-device", "help")
    version = re.search(r"version (\S+)", _output("--version"))
    return version[1] if version else "?", frozenset(re.findall(r'^name "([^"]+)"', text, re.MULTILINE))


def _output(*words: str) -> str:
    act = "check that all QEMU packages of this machine have the same version"
    return output(["qemu-system-aarch64", *words], ANSWER_S, act=act)
