"""The card image that each emulated board gets a copy of. It is cached by user, under the hash of its recipe."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from pytest_pinet.emulated.cache import cache, forget_old, locked, used
from pytest_pinet.emulated.card import make_card
from pytest_pinet.emulated.kernel_package import WANTED, KernelPackage
from pytest_pinet.emulated.machine import MACHINES
from pytest_pinet.emulated.packages import Apt
from pytest_pinet.emulated.rootfs import FILES, PACKAGES, initramfs, make_root
from pytest_pinet.errors import LabError

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
_RECIPE = ("card.py", "cpio.py", "image.py", "kernel_package.py", "packages.py", "rootfs.py")

Report = Callable[[str], None]


def recipe() -> str:
    """Return a hash of everything that the card is made from, except the versions of the packages."""
    digest = hashlib.sha256(json.dumps([PACKAGES, FILES, WANTED, KERNEL, CONFIG, _device_trees()]).encode())
    folder = resources.files("pytest_pinet.emulated")
    names = [folder.joinpath(name) for name in _RECIPE]
    names += sorted(folder.joinpath("guest").iterdir(), key=lambda entry: entry.name)
    for entry in names:
        digest.update(entry.read_bytes())
    return digest.hexdigest()[:16]


def card_image(report: Report) -> Path:
    """Return the card image. If it does not exist, make it from Debian's packages. Raises LabError."""
    folder = cache() / recipe()
    image = folder / "card.img"
    if not image.exists():
        with locked(cache()):
            if not image.exists():
                _make(folder, report)
            forget_old(cache())
    used(image)
    return image


def kernel_package(name: str, report: Report) -> Path:
    """Fetch a Debian kernel package by name. A name without a version (``linux-image-arm64``) gives the newest kernel.

    Raises LabError.
    """
    with locked(cache()):
        apt = Apt(cache() / "apt", report)
        apt.update()
        fetched = apt.fetch(name)
        if fetched.stat().st_size > LARGEST_META:
            return fetched
        # This package only depends on the kernel package.
        return _only_kernel(name, apt.closure([name]))


def kernels(report: Report) -> list[str]:
    """Return the newest kernel of each series and flavour in the machine's sources, the oldest series first."""
    with locked(cache()):
        apt = Apt(cache() / "apt", report)
        apt.update()
        names = apt.names(r"^linux-image-[0-9][^ ]*-arm64$")
    found = {}
    for name in sorted(names, key=_numbers):
        flavour = re.sub(r"^linux-image-[0-9.]+[-+]?(deb)?[0-9]*", "", name)
        found[(*_numbers(name)[:2], flavour)] = name
    return list(found.values())


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
            f"the Debian package {name} depends on {len(found)} kernels, expected one",
            "choose another one: `pinet emulated kernel` lists the kernel packages",
        )
    return found[0]


def _make(folder: Path, report: Report) -> None:
    apt = Apt(cache() / "apt", report)
    apt.update()
    packages = apt.closure([*PACKAGES, KERNEL])
    kernel_file = _only_kernel(KERNEL, packages)
    others = [path for path in packages if not path.name.startswith("linux-")]
    report(f"making a card from {len(others)} packages and {kernel_file.name}")
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        root = draft / "root"
        make_root(root, others)
        kernel = KernelPackage(kernel_file)
        kernel.install_modules(root)
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
