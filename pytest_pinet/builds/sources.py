"""Finds the definitions of functions in the sources of a build: beside a module, or in the kernel tree of a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from pytest_pinet.execution.path_kind import exists
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole

# What a packet and the measurement of an exact gate can execute. The rest of a kernel tree has ten times as many files.
_PARTS = (
    "net",
    "mm",
    "kernel",
    "lib",
    "drivers/net",
    "drivers/dma",
    "drivers/iommu",
    "drivers/usb",
    "drivers/virtio",
    "arch/arm64",
)
_LARGEST = 2 << 20
# A definition begins at the first column. A type may stand before the name, or on the line above.
_DEFINITION = r"^(?:[A-Za-z_][\w \t*]*[ \t*])?({names}) ?\((?![^;{{]*\);)"


def sources_of(build: Build) -> list[Path]:
    """Return the folders with the sources of a build, the nearest first; none for a build without sources."""
    folders: dict[Path, None] = {}
    for file in build.files:
        path = Path(file.path).resolve()
        if file.role is BuildFileRole.MODULE and any(path.parent.glob("*.c")):
            folders[path.parent] = None
        if (root := _tree_above(file)) is not None:
            folders |= {root / part: None for part in _PARTS if (root / part).is_dir()}
    return list(folders)


def sources_of_module(build: Build, module: str) -> list[Path]:
    """Return the folder of a module in the kernel tree of a build, if there is one.

    Drivers have functions of one name, so it is searched before `sources_of`.
    """
    own, root = build.modules.get(module), tree_of(build)
    place = Path(own.path.removeprefix("kernel/")).parent if own is not None else Path()
    return [root / place] if root is not None and place != Path() and (root / place).is_dir() else []


def tree_of(build: Build) -> Path | None:
    """Return the kernel tree that a file of a build lies in; None if none does."""
    return next((root for file in build.files if (root := _tree_above(file)) is not None), None)


def _tree_above(file: BuildFile) -> Path | None:
    path = Path(file.path).resolve()
    # With O=, kbuild leaves a link to the sources in the folder of the output.
    folders = [path, *path.parents] + ([(path / "build").resolve()] if file.role is BuildFileRole.MODULES else [])
    places = (place for folder in folders for place in (folder, folder / "source"))
    return next((place.resolve() for place in places if _is_tree(place)), None)


def _is_tree(folder: Path) -> bool:
    return all(exists(folder / name) for name in ("MAINTAINERS", "Kbuild", "net/core"))


def find_functions(folders: Collection[Path], names: Collection[str]) -> dict[str, str]:
    """Return file and line of the definition of each function that is found: ``drivers/.../macb_main.c:1302``.

    Paths are relative to the kernel tree, or to the folder of a module. The first definition counts. Inlined copies and
    functions that macros define are not found.
    """
    wanted, found = set(names), dict[str, str]()
    for folder in folders:
        root = next((one for one in folder.parents if _is_tree(one)), folder)
        for path in _files(folder):
            if not wanted:
                return found
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            mentioned = [name for name in wanted if name in text]
            if not mentioned:
                continue
            pattern = _DEFINITION.format(names="|".join(map(re.escape, mentioned)))
            for match in re.finditer(pattern, text, re.MULTILINE):
                if (name := match[1]) in wanted:
                    wanted.discard(name)
                    line = text.count("\n", 0, match.start(1)) + 1
                    found[name] = f"{path.relative_to(root)}:{line}"
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.[ch]")):
        if path.is_file() and path.stat().st_size <= _LARGEST:
            yield path
