"""Finds the file of a driver or of a commit in a kernel tree, and asks the tree's get_maintainer.pl who owns it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_pinet.catalogue.maintainers import Owner, parse_contacts, shipped_owners
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import quoted
from pytest_pinet.execution.path_kind import is_file
from pytest_pinet.execution.shell import last_line

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
        patch = self._run(["git", "format-patch", "-1", "--stdout", commit])
        files = self.git("show", "--format=", "--name-only", commit).split("\n")
        file = next(filter(None, files), "") + (f" and {len(files) - 1} more files" if len(files) > 1 else "")
        return Owner(f"commit {commit[:12]}", file, parse_contacts(self._ask(["-"], patch)), self.source)

    def git(self, *words: str) -> str:
        """Return the output of git in this tree, without the last newline. Raises ConfigError."""
        return self._run(["git", *words]).strip()

    def _ask(self, words: Sequence[str], given: str = "") -> str:
        return self._run(["perl", SCRIPT, *_OPTIONS, *words], given)

    def _run(self, argv: Sequence[str], given: str = "") -> str:
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        try:
            done = subprocess.run(
                argv, cwd=self.folder, input=given, capture_output=True, text=True, errors="replace",
                timeout=TIMEOUT_S, check=False, env=environment,
            )  # fmt: skip
        except FileNotFoundError:
            raise ConfigError(f"the command {argv[0]} is not installed; it is needed to read {self.folder}") from None
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{argv[1]} in {self.folder} does not end within {TIMEOUT_S:g} s") from None
        if done.returncode != 0:
            raise ConfigError(f"{' '.join(argv[:2])} in {self.folder} failed: {last_line(done.stderr, done.stdout)}")
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
