"""Reads what a user names as a build: folders, packages, archives and files, alone or several of one kernel."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_pinet.builds.archives import TARS, holds_parts, is_archive
from pytest_pinet.builds.cache import keep_once
from pytest_pinet.builds.contents import BuildContents, unpack
from pytest_pinet.builds.kernel_files import is_module
from pytest_pinet.builds.listing import CMDLINE, CONFIG, FIRMWARE, OVERLAYS, Listing, existing, filled, list_folder
from pytest_pinet.builds.not_a_build import is_kernel_source, kernel_for_others, what_is_file, what_is_folder
from pytest_pinet.builds.tree import is_release
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.files import is_file, is_folder
from pytest_pinet.execution.names import misspelled, quoted, shown
from pytest_pinet.execution.text import parse_json
from pytest_pinet.model.build import BuildFileRole, BuildSource

METADATA = "metadata.json"
FORM = "the metadata.json of TuxMake"
_MAX_METADATA = 2**24


@dataclass(frozen=True)
class TuxMakeBuild:
    """The files of a build by role, and the kernel's configuration; as paths in the folder of the build."""

    files: Mapping[BuildFileRole, str]
    config: str | None
    source: BuildSource


class _Loose(BaseModel):
    # TuxMake may add keys at any time.
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Results(_Loose):
    status: str
    artifacts: dict[str, list[str]] = {}


class _Git(_Loose):
    git_url: str = ""
    git_branch: str = ""
    git_commit: str = ""
    git_describe: str = ""


class _Compiler(_Loose):
    version_full: str = ""


class _Metadata(_Loose):
    results: _Results
    git: _Git = _Git()
    compiler: _Compiler = _Compiler()


def is_tuxmake(folder: Path) -> bool:
    """Return whether a folder has TuxMake's metadata. KernelCI's have the same name and other keys."""
    file = folder / METADATA
    return is_file(file) and b'"results"' in _read(file)


def read_metadata(data: bytes, where: Where, place: str) -> TuxMakeBuild:
    """Return what TuxMake says of the build in the folder ``place``. Raises ConfigError."""
    try:
        found = _Metadata.model_validate(parse_json(data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"expected {FORM}; key '{key}': {first['msg']}", where) from None
    except ValueError as error:
        raise ConfigError(f"expected {FORM}, but it is not JSON ({error})", where) from None
    if found.results.status.lower() != "pass":
        status = quoted(found.results.status)
        raise ConfigError(f"TuxMake reports {status} for this build, so there is nothing to measure", where)
    first_of = {key: _plain(names[0], where) for key, names in found.results.artifacts.items() if names}
    if "kernel" not in first_of:
        raise ConfigError(
            "TuxMake built no kernel; name the target: tuxmake -a arm64 config kernel modules dtbs", where
        )
    source = BuildSource(
        made_by="TuxMake",
        place=place,
        tree=found.git.git_url,
        branch=found.git.git_branch,
        commit=found.git.git_commit,
        describe=found.git.git_describe,
        compiler=found.compiler.version_full,
    )
    named = {
        BuildFileRole.KERNEL: first_of["kernel"],
        BuildFileRole.MODULES: first_of.get("modules"),
        BuildFileRole.DEVICE_TREE: first_of.get("dtbs", first_of.get("dtbs-legacy")),
    }
    return TuxMakeBuild({role: name for role, name in named.items() if name}, first_of.get("config"), source)


def _plain(name: str, where: Where) -> str:
    """Return the path of an artefact. Raises ConfigError if it leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.isprintable() or not path.name:
        raise ConfigError(f"the path of an artefact leads out of the folder of the build: {quoted(name)}", where)
    return str(path)


def add_tuxmake(parts: BuildContents, folder: Path, where: Where) -> None:
    """Add the files and the source of a build. ``where`` is the place that names the folder. Raises ConfigError."""
    file = filled(folder / METADATA, where, "build")
    found = read_metadata(_read(file), Where(str(file)), str(folder))
    for role, name in found.files.items():
        path = folder / name
        if role is BuildFileRole.MODULES:
            parts.add_modules(path, where)
            continue
        existing(path, where, str(role).replace("_", " "))
        if role is BuildFileRole.KERNEL:
            parts.add(role, [path], where)
        else:
            parts.add_device_trees(unpack([path], where) if path.name.endswith(TARS) else path, where)
    config = folder / found.config if found.config is not None else None
    parts.describe(replace(found.source, config=str(config) if config is not None and is_file(config) else ""))


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_METADATA + 1)
    except OSError as error:
        raise ConfigError(f"this cannot be read ({error.strerror})", Where(str(file))) from None
    if len(data) > _MAX_METADATA:
        raise ConfigError(f"this has more than {_MAX_METADATA // 2**20} MiB", Where(str(file)))
    return data


_ACCEPTED = (
    "a kernel (kernel8.img, Image, vmlinuz...), *.dtb, dtbs/, overlays/*.dtbo, initramfs*, modules*.tar.*, "
    f"lib/modules/RELEASE, *.ko, packages and archives of these, {CONFIG}, {CMDLINE}, firmware/"
)
# A misspelled file would be left out, and the build would be judged without it.
_NAMES = (
    CONFIG,
    CMDLINE,
    FIRMWARE,
    OVERLAYS,
    "kernel8.img",
    "kernel_2712.img",
    "kernel7l.img",
    "kernel7.img",
    "zImage",
)
_BOARD_FIRMWARE = ("bootcode.bin", "start.elf", "start4.elf", "start_x.elf", "start4x.elf")


def add_places(parts: BuildContents, paths: Sequence[Path], named_at: Where | None = None) -> None:
    """Add what these folders and files have. Packages may split one kernel. Raises ConfigError.

    Every path must have a part of a build. Files beside these parts are left out, and named. ``named_at`` is the place
    of the paths; without it, each path stands for itself.
    """
    archives: list[Path] = []
    folders = [path for path in paths if path.is_dir()]
    for path in paths:
        where = named_at or Where(str(path))
        if path in folders:
            archives += _add_folder(parts, path, where)
        elif is_archive(path.name):
            filled(path, where, "package or archive")
            archives.append(path)
        else:
            if path.suffix in (".dtb", ".dtbo"):
                role = BuildFileRole.DEVICE_TREE if path.suffix == ".dtb" else BuildFileRole.OVERLAY
            else:
                # The content shows whether the file is a kernel.
                role = BuildFileRole.MODULE if is_module(path.name) else BuildFileRole.KERNEL
            parts.add(role, [path], where)
    if archives:
        _add_archives(parts, archives, named_at or Where(str(archives[0])))
    for folder in folders:
        if (
            parts.of(BuildFileRole.MODULES)
            and not parts.of(BuildFileRole.KERNEL)
            and (what := kernel_for_others(folder))
        ):
            raise ConfigError(f"{folder} has modules and no kernel: {what}", named_at or Where(str(folder)))


def _add_archives(parts: BuildContents, archives: Sequence[Path], where: Where) -> None:
    """Add what packages and archives have, which may split one kernel. Raises ConfigError."""
    unpacked = unpack(archives, where)
    found = list_folder(unpacked, where)
    if _is_empty(found):
        what = what_is_file(archives[0]) or what_is_folder(unpacked, "FOLDER")
        why = f"it is {what}" if what else "expected a linux-image package, or an archive with boot/ or lib/modules/"
        raise ConfigError(f"{archives[0]} contains no kernel and no modules; {why}", where)
    parts.add_listing(found, where)


def _add_folder(parts: BuildContents, folder: Path, where: Where) -> list[Path]:
    """Add the parts in a folder, and return the archives that may have more. Raises ConfigError."""
    if is_make_output(folder):
        add_make_output(parts, folder)
        return []
    if is_kernel_source(folder):
        raise ConfigError(f"{folder} is {what_is_folder(folder)}", where)
    archives: list[Path] = []
    is_taken = False
    for root in _roots(folder):
        found = list_folder(root, where)
        if root == folder:
            _check_names(folder, found, where)
        named = _archives_of(root, found)
        # If the folder has modules, an archive beside them has the same modules, or a whole root file system.
        wanted = [path for path in named if not (found.trees or found.modules) or path.suffix in (".deb", ".rpm")]
        others = [str(path.relative_to(root)) for path in found.archives if path not in wanted]
        found = replace(found, left_out=[*found.left_out, *others])
        parts.add_listing(found, where)
        archives += wanted
        is_taken = is_taken or not _is_empty(found) or bool(found.texts or wanted)
    if not is_taken:
        what = what_is_folder(folder)
        if what:
            raise ConfigError(f"{folder} is {what}", where)
        left = f"unsupported file '{found.left_out[0]}'" if found.left_out else f"{folder} has no part of a build"
        raise ConfigError(f"{left}; accepted: {_ACCEPTED}", where)
    return archives


def _archives_of(root: Path, found: Listing) -> list[Path]:
    """Return the packages and archives of a folder that may have parts of a build.

    ``gh run download`` makes a folder for each job, with its archive in it. OpenWrt has a folder with a package for
    each module, which is no build.
    """
    named = [path for path in found.archives if holds_parts(path.name)]
    here = [path for path in named if path.parent == root]
    if here or not _is_empty(found):
        return here
    return [path for path in named if path.parent.parent == root and path.suffix not in (".ipk", ".apk")]


def _roots(folder: Path) -> Iterator[Path]:
    """Yield the folders of a build. Buildroot leaves the kernel in images/, and its modules in target/ beside it."""
    output = folder.resolve().parent if folder.resolve().name == "images" else folder
    if is_folder(output / "images") and is_folder(output / "target/lib/modules"):
        yield from (output / "images", output / "target/lib/modules")
    else:
        yield folder


def _check_names(folder: Path, found: Listing, where: Where) -> None:
    """Check the names of the files that would be left out. Raises ConfigError."""
    for name in found.left_out:
        first = name.partition("/")[0]
        if first in _BOARD_FIRMWARE and found.texts:
            raise ConfigError(
                f"{folder} is a whole boot partition, since {first} stands beside {found.texts[0].name}: take the "
                "kernel, its modules and device trees out of it, and only the lines that the build adds",
                where,
            )
        if near := misspelled(first, _NAMES):
            if not (found.trees or found.kernels) and (what := what_is_file(folder / first)):
                raise ConfigError(f"{folder} is no build: {first} is {what}", where)
            raise ConfigError(f"unsupported file '{first}', did you mean '{near}'? Accepted: {_ACCEPTED}", where)


def _is_empty(found: Listing) -> bool:
    return not any(
        (
            *(found.kernels, found.initramfs, found.trees, found.modules, found.device_trees, found.overlays),
            *(found.tree_folders, found.firmware, found.texts),
        )
    )


_RELEASE = "include/config/kernel.release"
_IMAGES = ("arch/arm64/boot/Image", "arch/arm64/boot/Image.gz", "arch/arm/boot/zImage")
# Lists that `make modules_install` copies.
_LISTS = ("modules.order", "modules.builtin", "modules.builtin.modinfo")


def is_make_output(folder: Path) -> bool:
    """Return whether ``make`` has built, or begun to build, a kernel in this folder."""
    return is_file(folder / _RELEASE)


def add_make_output(parts: BuildContents, folder: Path) -> None:
    """Add the kernel image and the modules of such a folder. Raises ConfigError if one of them is missing.

    The modules are copied to the cache, in the layout of ``make modules_install``: a later ``make`` does not change
    this build.
    """
    where = Where(str(folder))
    image = next((folder / name for name in _IMAGES if is_file(folder / name)), None)
    if image is None:
        raise ConfigError(
            f"{folder} has no kernel image; expected {_IMAGES[0]}, as `make Image modules` leaves it", where
        )
    parts.add(BuildFileRole.KERNEL, [existing(image, where, "kernel")], where)
    modules = _modules(folder)
    missing = next((name for name in modules if not is_file(folder / name)), None)
    if missing is not None:
        raise ConfigError(f"{folder / missing} is not built, but modules.order lists it; run `make modules`", where)
    if not modules:
        return
    try:
        release = (folder / _RELEASE).read_text(errors="replace").strip()
    except OSError as error:
        raise ConfigError(f"this cannot be read: {error.strerror}", Where(str(folder / _RELEASE))) from None
    if not is_release(release):
        raise ConfigError(
            f"expected a kernel release such as 6.12.25, got {shown(release)}", Where(str(folder / _RELEASE))
        )
    try:
        copied = [*modules, *_lists(folder)]
        stats = [(name, found.st_size, found.st_mtime_ns) for name in copied for found in [(folder / name).stat()]]
        key = hashlib.sha256(json.dumps([str(folder.resolve()), release, *stats]).encode()).hexdigest()
        kept = keep_once(key, lambda: _installed(folder, release, modules))
    except OSError as error:
        raise ConfigError(f"the modules of {folder} cannot be copied to the cache: {error.strerror}", where) from None
    parts.add(BuildFileRole.MODULES, [kept / "lib/modules" / release], where)


def _modules(folder: Path) -> list[str]:
    """Return the paths of all modules. From 6.3 on, modules.order names their objects.

    Before 5.3, it names their places below lib/modules: each has ``kernel/`` in front. Raises ConfigError.
    """
    order = folder / "modules.order"
    try:
        paths = [PurePosixPath(line) for line in order.read_text(errors="replace").split()]
    except OSError:
        return []
    for path in paths:
        if path.suffix not in (".o", ".ko") or path.is_absolute() or ".." in path.parts:
            raise ConfigError(f"expected a module such as net/core/pktgen.o, got {shown(str(path))}", Where(str(order)))
    return [_built(folder, path.with_suffix(".ko")) for path in paths]


def _built(folder: Path, listed: PurePosixPath) -> str:
    # The tree has a folder kernel/ of its own, with modules such as kernel/configs.ko.
    place = str(listed).removeprefix("kernel/")
    return place if not is_file(folder / listed) and is_file(folder / place) else str(listed)


def _installed(folder: Path, release: str, modules: list[str]) -> Iterator[tuple[str, bytes]]:
    base = f"lib/modules/{release}"
    for name in modules:
        yield f"{base}/kernel/{name}", (folder / name).read_bytes()
    for name in _lists(folder):
        yield f"{base}/{name}", (folder / name).read_bytes()


def _lists(folder: Path) -> list[str]:
    return [name for name in _LISTS if is_file(folder / name)]
