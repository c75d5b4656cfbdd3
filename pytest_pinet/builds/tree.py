"""Reads a tree of modules as made by ``make modules_install``, and selects the modules that a board needs.

The files of a build are read again for each board, and must still have the hashes from the start of the run.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import TypeAdapter

from pytest_pinet.builds.archives import MAX_ARCHIVE, MAX_FILES, Unreadable
from pytest_pinet.builds.cache import read_once
from pytest_pinet.builds.kernel_files import is_module, name_of, read_module
from pytest_pinet.errors import ChangedBuildError
from pytest_pinet.execution.files import is_file, is_folder
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, ModuleId

# Modules that a system uses without any device: protocols, queueing, checksums of packets.
_SYSTEM = (
    "kernel/net/core/",
    "kernel/net/ipv4/",
    "kernel/net/ipv6/",
    "kernel/net/packet/",
    "kernel/net/sched/",
    "kernel/net/8021q/",
)
_RELEASE = re.compile(r"[0-9][A-Za-z0-9._+~-]*")
# Where modules_install and DKMS put modules.
_PARTS = ("kernel", "updates", "extra")
_WILDCARD = re.compile(r"[*?\[]")
_INDEX = "index-5.json"


def is_release(text: str) -> bool:
    """Return whether the text can be the release of a kernel: ``6.12.25-v8+``."""
    return _RELEASE.fullmatch(text) is not None


def is_tree(path: Path) -> bool:
    """Return whether a folder holds the modules of one kernel, as ``lib/modules/RELEASE`` does.

    The modules of OpenWrt lie in this folder itself. So a folder with single modules is a tree if it lies in a folder
    ``modules`` or has the release of a module as its name.
    """
    if not (is_release(path.name) and is_folder(path)):
        return False
    if any(is_folder(path / part) for part in _PARTS):
        return True
    flat = next((one for one in _listed(path) if is_module(one.name) and is_file(one)), None)
    return flat is not None and (path.parent.name == "modules" or _release_of(flat) == path.name)


def is_whole(tree: Path) -> bool:
    """Return whether a tree has all modules of its kernel, not only modules that were installed in addition."""
    return is_folder(tree / "kernel") or is_file(tree / "modules.builtin") or not is_folder(tree)


def modules_in(tree: Path) -> list[Path]:
    """Return the files of the modules in a tree. Raises OSError."""
    return [path for path in _files(tree) if is_module(path.name)]


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _release_of(module: Path) -> str:
    try:
        return read_module(module.read_bytes(), module.name).release if module.stat().st_size else ""
    except (Unreadable, OSError):
        return ""


def read_tree(tree: Path) -> tuple[dict[str, ModuleId], str, int]:
    """Return a tree's modules by name, the hash of all files, and their size.

    Raises Unreadable, which names the module.

    Of two modules of one name the one in ``updates`` counts, as for depmod. The result is cached by the hash.
    """
    hashes, digest, size = hash_tree(tree)

    names = sorted(filter(is_module, hashes), key=lambda name: (name.startswith("updates/"), name))
    modules = read_once(digest, _INDEX, TypeAdapter(list[ModuleId]), lambda: [_read(tree, name) for name in names])
    return {module.name: module for module in modules}, digest, size


def _read(tree: Path, name: str) -> ModuleId:
    try:
        return read_module((tree / name).read_bytes(), name)
    except Unreadable as error:
        raise Unreadable(f"{name}: {error}") from None


def hash_tree(tree: Path) -> tuple[dict[str, str], str, int]:
    """Return the hashes of the files by path, the hash of all of them, and their size in bytes. Raises OSError."""
    hashes: dict[str, str] = {}
    size = 0
    for path in _files(tree):
        name = path.relative_to(tree)
        if not path.is_file():
            raise OSError(errno.EINVAL, f"{name} is not a regular file")
        size += path.stat().st_size
        if len(hashes) == MAX_FILES or size > MAX_ARCHIVE:
            raise OSError(errno.E2BIG, f"more than {MAX_FILES} files or {MAX_ARCHIVE // 2**30} GiB")
        data = path.read_bytes()
        hashes[str(name)] = hashlib.sha256(data).hexdigest()
    return hashes, hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest(), size


def _files(tree: Path) -> list[Path]:
    # "build" and "source" are links into the kernel's source or build folder.
    return sorted(path for path in tree.rglob("*") if not path.is_symlink() and not path.is_dir())


def required_modules(
    modules: Mapping[str, ModuleId], names: Iterable[str], modaliases: Collection[str]
) -> list[ModuleId]:
    """Return the part of a tree that a board needs.

    These are the modules in ``names`` (loaded on the board, or named by the build), modules for its devices'
    ``modaliases``, network protocols and queueing, and all dependencies.
    """
    wanted = {name.replace("-", "_") for name in names} | matching_modules(modules, modaliases)
    wanted |= {module.name for module in modules.values() if module.path.startswith(_SYSTEM)}
    return with_dependencies(modules, wanted)


def matching_modules(modules: Mapping[str, ModuleId], modaliases: Collection[str]) -> set[str]:
    """Return the names of the modules that modprobe would load for these aliases, which may be names of modules."""
    return {
        module.name
        for module in modules.values()
        if module.name in modaliases
        or any(
            fnmatchcase(alias, pattern) for pattern in module.aliases for alias in modaliases if _near(alias, pattern)
        )
    }


def with_dependencies(modules: Mapping[str, ModuleId], names: Iterable[str]) -> list[ModuleId]:
    """Return the existing modules of these names, with all modules that they need or softly depend on."""
    queue, found = list(names), dict[str, ModuleId]()
    while queue:
        name = queue.pop()
        if name in modules and name not in found:
            found[name] = modules[name]
            queue += [*modules[name].depends, *modules[name].softdeps]
    return sorted(found.values(), key=lambda module: module.path)


def module_files(build: Build) -> dict[str, Path]:
    """Return the file of each module of a build, by the module's name. Raises OSError and Unreadable."""
    trees = [Path(file.path) for file in build.of(BuildFileRole.MODULES)]
    found = {name: tree / module.path for tree in trees for name, module in build.modules.items()}
    for file in build.of(BuildFileRole.MODULE):
        found[read_module(Path(file.path).read_bytes(), file.path).name] = Path(file.path)
    return found


def built_in_modules(tree: Path) -> set[str]:
    """Return the names of the modules that are built into a tree's kernel; empty if unknown."""
    try:
        data = (tree / "modules.builtin").read_bytes().decode("utf-8", "replace")
    except OSError:
        return set()
    return {name_of(line) for line in data.splitlines() if line}


def built_in_texts(tree: Path) -> list[tuple[str, str, str]]:
    """Return module, key and value of each text about the code that is built into a tree's kernel; empty if unknown."""
    try:
        data = (tree / "modules.builtin.modinfo").read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    # "e1000e.parmtype=debug:int", each text ended by a zero byte (Documentation/kbuild/kbuild.rst).
    parts = (text.partition(".") for text in data.split("\0") if text)
    return [
        (module.replace("-", "_"), key, value) for module, _, rest in parts for key, _, value in [rest.partition("=")]
    ]


def _near(alias: str, pattern: str) -> bool:
    """Return whether an alias begins like a pattern up to its first wildcard; a cheap check."""
    return alias.startswith(_WILDCARD.split(pattern, maxsplit=1)[0])


@dataclass(frozen=True)
class BuildSnapshot:
    """A file that must still have the content that it had when its build was read."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, file: BuildFile) -> BuildSnapshot:
        """Return the snapshot of a single file of a build; use ``of_tree`` for a tree."""
        return cls(Path(file.path), file.sha256)

    def read(self) -> bytes:
        """Return the file's content. Raises ChangedBuildError if it has changed or is gone."""
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise _gone(self.path, error) from None
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise _changed(self.path)
        return data


def of_tree(tree: BuildFile) -> dict[str, BuildSnapshot]:
    """Return the files of a tree of modules by their path in it. Raises ChangedBuildError if the tree has changed."""
    root = Path(tree.path)
    try:
        hashes, digest, _ = hash_tree(root)
    except OSError as error:
        raise _gone(root, error) from None
    if digest != tree.sha256:
        raise _changed(root)
    return {name: BuildSnapshot(root / name, sha256) for name, sha256 in hashes.items()}


def size_of(path: Path) -> int:
    """Return the size of a build's file in bytes. Raises ChangedBuildError if the file is gone."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise _gone(path, error) from None


def _gone(path: Path, error: OSError) -> ChangedBuildError:
    return ChangedBuildError(f"{path} cannot be read any more ({error.strerror})")


def _changed(path: Path) -> ChangedBuildError:
    return ChangedBuildError(
        f"{path} changed during this run, so the results would be of two different builds; "
        "do not change a build during a run, or test a copy"
    )
