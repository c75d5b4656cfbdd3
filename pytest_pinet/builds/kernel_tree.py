"""Reads a source tree of the kernel: where functions are defined, and who maintains a driver or a commit."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_pinet.catalogue.maintainers import Owner, parse_contacts, shipped_owners
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.files import exists, is_file
from pytest_pinet.execution.git import git
from pytest_pinet.execution.names import quoted
from pytest_pinet.execution.shell import last_line
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole

# What a packet and the measurement of an exact gate can execute. The rest of a kernel tree has ten times as many files.
_FOLDERS = (
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
            folders |= {root / part: None for part in _FOLDERS if (root / part).is_dir()}
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
        for path in sorted(folder.rglob("*.[ch]")):
            if not wanted:
                return found
            if not path.is_file() or path.stat().st_size > _LARGEST:
                continue
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


TIMEOUT_S = 120.0
SCRIPT = "scripts/get_maintainer.pl"
# The address of a person who once changed a line is no owner.
_OPTIONS = ("--no-tree", "--nogit", "--nogit-fallback", "--roles", "--norolestats")
_DRIVERS = "drivers/net"
_VERSION = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *= *(\S*)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9_]{1,60}")
# An object of a module in a Makefile, without its suffix.
_OBJECT = re.compile(r"(?<!\S)([A-Za-z0-9_./+-]{1,200})\.o(?!\S)")
_SHA = re.compile(r"[0-9a-f]{7,64}")


class KernelTree:
    """A source tree of the kernel. Raises ConfigError if the folder is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not is_file(folder / "MAINTAINERS") or not is_file(folder / SCRIPT):
            raise ConfigError(
                f"{folder} is no source tree of the kernel; expected a folder with MAINTAINERS and {SCRIPT}"
            )

    @property
    def source(self) -> str:
        """What the tree says of itself: ``MAINTAINERS of Linux 6.12.117``."""
        try:
            parts = dict(_VERSION.findall((self.folder / "Makefile").read_text("utf-8", "replace")[:2000]))
        except OSError:
            parts = {}
        version = ".".join(filter(None, (parts.get(key) for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))))
        return f"MAINTAINERS of Linux {version}{parts.get('EXTRAVERSION', '')}" if version else "MAINTAINERS"

    def owner(self, driver: str) -> Owner:
        """Return who maintains a driver. Raises ConfigError."""
        file = self.file_of(driver)
        if file is None:
            raise ConfigError(f"no Makefile below {self.folder / _DRIVERS} builds the driver {quoted(driver)}")
        return Owner(driver, file, parse_contacts(self._ask(["-f", file])), self.source)

    def file_of(self, driver: str) -> str | None:
        """Return the main file of a driver; None if no Makefile builds it."""
        known = shipped_owners().get(driver)
        if known is not None and (self.folder / known.file).exists():
            return known.file
        names = "|".join(map(re.escape, {driver, driver.replace("_", "-")}))
        for makefile in sorted((self.folder / _DRIVERS).rglob("Makefile")):
            text = makefile.read_text("utf-8", "replace").replace("\\\n", " ")
            if found := re.search(rf"^obj-.*[ \t=]({names})\.o\b", text, re.MULTILINE):
                parts = re.findall(rf"^{re.escape(found[1])}-(?:y|objs)[ \t]*[:+]?=(.*)$", text, re.MULTILINE)
                return self._main_file(makefile.parent, found[1], _OBJECT.findall(" ".join(parts)))
        # ethtool can say another name than the module has: bcmgenet of genet.ko, built of bcmgenet.c and others.
        named = next(iter(sorted((self.folder / _DRIVERS).rglob(f"{driver}.c"))), None)
        return None if named is None else str(named.relative_to(self.folder))

    def _main_file(self, folder: Path, name: str, objects: Sequence[str]) -> str:
        """Return the file of a module, of several files the first, or the one that has its name."""
        names = [name, *sorted(objects, key=lambda one: not one.startswith(name))]
        file = next((path for one in names if (path := folder / f"{one}.c").exists()), folder)
        return str(file.relative_to(self.folder))

    def owner_of_commit(self, commit: str) -> Owner:
        """Return who maintains the files of a commit. Raises ConfigError."""
        if not _SHA.fullmatch(commit):
            raise ConfigError(f"expected the hash of a commit, got {quoted(commit)}")
        patch = self._git("format-patch", "-1", "--stdout", commit)
        files = self.git("show", "--format=", "--name-only", commit).split("\n")
        file = next(filter(None, files), "") + (f" and {len(files) - 1} more files" if len(files) > 1 else "")
        return Owner(f"commit {commit[:12]}", file, parse_contacts(self._ask(["-"], patch)), self.source)

    def git(self, *words: str) -> str:
        """Return the output of git in this tree, without the last newline. Raises ConfigError."""
        return self._git(*words).strip()

    def _git(self, *words: str) -> str:
        return self._output(f"git {words[0]}", git(self.folder, *words))

    def _ask(self, words: Sequence[str], given: str = "") -> str:
        try:
            done = subprocess.run(
                ["perl", SCRIPT, *_OPTIONS, *words], cwd=self.folder, input=given, capture_output=True, text=True,
                errors="replace", timeout=TIMEOUT_S, check=False, env={**os.environ, "LC_ALL": "C.UTF-8"},
            )  # fmt: skip
        except FileNotFoundError:
            raise ConfigError(f"the command perl is not installed; it is needed to read {self.folder}") from None
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{SCRIPT} in {self.folder} does not end within {TIMEOUT_S:g} s") from None
        return self._output(f"perl {SCRIPT}", done)

    def _output(self, command: str, done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode != 0:
            raise ConfigError(f"{command} in {self.folder} failed: {last_line(done.stderr, done.stdout)}")
        return done.stdout


def owner_of(driver: str, tree: KernelTree | None) -> Owner:
    """Return who maintains a driver, by a tree or by the shipped table. Raises ConfigError."""
    if not _NAME.fullmatch(driver):
        raise ConfigError(f"expected the name of a driver such as 'bcmgenet', got {quoted(driver)}")
    if tree is not None:
        return tree.owner(driver)
    found = shipped_owners().get(driver)
    if found is None:
        known = ", ".join(sorted(shipped_owners()))
        raise ConfigError(
            f"the shipped table does not have the driver {quoted(driver)}; give the source of the kernel with "
            f"--tree DIR, or a driver of the table: {known}"
        )
    return found
