"""Splits the parts of a build by its kernels: artefacts of several kernels, with modules for each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_pinet.builds.archives import Unreadable
from pytest_pinet.builds.cache import folder, sha256_of
from pytest_pinet.builds.contents import BuildContents, BuildPart
from pytest_pinet.builds.kernel_files import ACCEPTED, Loader, read_image, read_module
from pytest_pinet.builds.listing import filled, unreadable
from pytest_pinet.builds.not_a_build import what_is_file
from pytest_pinet.builds.tree import is_whole, modules_in
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.model.build import BuildFileRole, KernelId

# The flavour in a release of Raspberry Pi's kernels, and the file that their packages make of it (raspi-firmware,
# kernel/postinst.d/z50-raspi-firmware): 6.12.25-v8+, 6.12.25-v8-16k+, 6.12.25+rpt-rpi-2712.
_FLAVOURS = {
    r"(?:2712|v8-16k)": "kernel_2712.img",
    r"v8-rt": "kernel8_rt.img",
    r"v8": "kernel8.img",
    r"v7l": "kernel7l.img",
    r"v7": "kernel7.img",
    r"v6": "kernel.img",
}
# The first is the kernel of a build for boards that choose none. Exact boards take the first that both builds have.
_ORDER = ("kernel8.img", "kernel_2712.img", "kernel7l.img", "kernel7.img", "kernel.img")
Kernel = tuple[BuildPart, KernelId]


def split_by_kernel(parts: BuildContents) -> dict[str, tuple[BuildContents, KernelId | None]]:
    """Return the parts for each kernel, by the name that the firmware of a Raspberry Pi knows the kernel by.

    A kernel has the modules of its release. A build without a kernel has the name "". Raises ConfigError.
    """
    # images,target of Buildroot name the same modules twice, because images/ has them already.
    files = {(one.role, one.name, one.path.name, one.path.resolve()): one for one in parts.files}
    parts = replace(parts, files=list(files.values()))
    kernels = _distinct(parts)
    parts = _with_single_modules(parts, bool(kernels))
    trees = parts.of(BuildFileRole.MODULES)
    if not kernels:
        return {"": (parts, None)}
    with_modules = [one for one in kernels if one[1].release in {tree.path.name for tree in trees}]
    chosen = with_modules or kernels
    parts.leave_out(part.path.name for part, _ in kernels if with_modules and part not in [k for k, _ in chosen])
    used = {one.release for _, one in chosen}
    parts.leave_out(str(tree.path) for tree in trees if with_modules and tree.path.name not in used)
    named: dict[str, Kernel] = {}
    for one in chosen:
        name = firmware_name(one[0].path.name, one[1])
        if name in named:
            both = f"{_place(named[name])} and {_place(one)}"
            raise ConfigError(
                f"a build can have only one kernel for a board, but has two: {both}; name the files or packages of one",
                one[0].where,
            )
        named[name] = one
    order = sorted(named, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return {name: (_of_kernel(parts, name, named[name], len(named) > 1), named[name][1]) for name in order}


def firmware_name(name: str, kernel: KernelId) -> str:
    """Return the name of this kernel on a card of Raspberry Pi OS: its own, or that of its release's flavour."""
    if name.startswith("kernel"):
        return name
    for flavour, known in _FLAVOURS.items():
        if re.search(rf"[-+]{flavour}\+?$", kernel.release):
            return known
    return "kernel8.img" if kernel.arch == "arm64" else "kernel7.img"


def _place(kernel: Kernel) -> str:
    """Return a kernel's path, or its path in the package or archive that has it, with its release."""
    path, release = kernel[0].path, kernel[1].release
    unpacked = path.relative_to(folder()).parts[1:] if path.is_relative_to(folder()) else ()
    return f"{Path(*unpacked) if unpacked else path}{f' ({release})' if release else ''}"


def _distinct(parts: BuildContents) -> list[Kernel]:
    """Return the kernels without the ones that are there twice: Image and Image.gz, boot/vmlinuz and lib/modules/."""
    found: dict[tuple[object, ...], Kernel] = {}
    wrong: list[ConfigError] = []
    for part in parts.of(BuildFileRole.KERNEL):
        try:
            kernel = read_kernel(part)
        except ConfigError as error:
            if part.is_named:
                raise
            wrong.append(error)
            continue
        key = (kernel.version, kernel.build_ids) if kernel.version else (sha256_of(part.path),)
        found.setdefault((kernel.arch, *key), (part, kernel))
    if wrong and not found:
        raise wrong[0]
    # Beside a kernel, the folder of a system has a boot loader with the name of a kernel.
    parts.leave_out(map(str, wrong))
    return list(found.values())


def read_kernel(part: BuildPart) -> KernelId:
    """Return the identity of a kernel image. Raises ConfigError, which names the image."""
    try:
        return read_image(filled(part.path, part.where, str(part.role)).read_bytes())
    except OSError as error:
        raise unreadable(part.path, error, part.where) from None
    except Loader as loader:
        raise ConfigError(f"'{part.path}' is {loader}, not a kernel; expected {ACCEPTED}", part.where) from None
    except Unreadable as error:
        if what := what_is_file(part.path):
            raise ConfigError(f"'{part.path}' is {what}", part.where) from None
        raise ConfigError(f"'{part.path}' is not a kernel for a Raspberry Pi: {error}", part.where) from None


def _with_single_modules(parts: BuildContents, has_kernel: bool) -> BuildContents:
    """Return the parts with single modules in place of trees that have only modules installed in addition.

    Such a tree is of ``make M=FOLDER modules_install``, of DKMS, or of a package of one driver.
    """
    whole = {part.path.name for part in parts.of(BuildFileRole.MODULES) if is_whole(part.path)}
    files: list[BuildPart] = []
    for part in parts.files:
        added = part.role is BuildFileRole.MODULES and (part.path.name in whole or not has_kernel)
        if added and part.path.is_dir() and not is_whole(part.path):
            try:
                files += [BuildPart(BuildFileRole.MODULE, path, part.where) for path in modules_in(part.path)]
            except OSError as error:
                raise unreadable(part.path, error, part.where) from None
        else:
            files.append(part)
    return replace(parts, files=files)


def _of_kernel(parts: BuildContents, name: str, kernel: Kernel, is_one_of_many: bool) -> BuildContents:
    part, identity = kernel
    release = identity.release
    trees = parts.of(BuildFileRole.MODULES)
    own = [tree for tree in trees if tree.path.name == release] or (trees if not is_one_of_many else [])
    singles = parts.of(BuildFileRole.MODULE)
    if is_one_of_many:
        singles = [one for one in singles if _is_for(one, release)]
    ramdisks = _initramfs(parts.of(BuildFileRole.INITRAMFS), name, release)
    chosen = {
        BuildFileRole.KERNEL: [part],
        BuildFileRole.MODULES: own,
        BuildFileRole.MODULE: singles,
        BuildFileRole.INITRAMFS: ramdisks,
    }
    others = [one for one in parts.files if one.role not in chosen]
    trees_of_board = _one_of_each_name(others, release)
    return replace(parts, files=[one for role in chosen.values() for one in role] + trees_of_board)


def _is_for(part: BuildPart, release: str) -> bool:
    try:
        return read_module(filled(part.path, part.where, "module").read_bytes(), part.path.name).release == release
    except (OSError, Unreadable):
        return True


def _initramfs(listed: list[BuildPart], name: str, release: str) -> list[BuildPart]:
    """Return the initramfs of a kernel: the only one, or the one with its release or its suffix (initramfs_2712)."""
    suffix = f"initramfs{name.removeprefix('kernel').removesuffix('.img')}"
    fitting = [one for one in listed if one.path.name.endswith(f"-{release}") or one.path.name == suffix]
    found = fitting or listed
    if len(found) > 1:
        names = " and ".join(str(one.path) for one in found[:2])
        raise ConfigError(f"a kernel can have only one initramfs, but the build has two: {names}", found[1].where)
    return found


def _one_of_each_name(files: Iterable[BuildPart], release: str) -> list[BuildPart]:
    """Return the files without copies of equal content. Of trees for several kernels, the ones of this release."""
    groups = grouped(((part.role, part.name or part.path.name), part) for part in files)
    found: list[BuildPart] = []
    for same in groups.values():
        own = [part for part in same if release and release in part.path.parts] or same
        if len(own) > 1:
            own = list({sha256_of(filled(part.path, part.where, str(part.role))): part for part in own}.values())
        found += own
    return found
