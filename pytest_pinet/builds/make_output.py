"""Reads the folder in which ``make`` has built a kernel: the tree itself, or the folder of ``O=``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pytest_pinet.builds.cache import keep_once
from pytest_pinet.builds.contents import BuildContents
from pytest_pinet.builds.listing import existing
from pytest_pinet.builds.tree import is_release
from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.execution.names import shown
from pytest_pinet.execution.path_kind import is_file
from pytest_pinet.model.build import BuildFileRole

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
