"""A git repository with a tiny kernel: its Makefile answers as kbuild does, in milliseconds and without a compiler."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.apt_programs import tool
from tests.support.build_files import RELEASE, device_tree, image, module

# As kbuild: objects and results in O=, only what is older than its source is made. `error:` in a source is an error of
# the compiler, and `wait FILE` in a source makes it wait until a file is gone. When b begins, a is complete.
_MAKEFILE = r"""
release := RELEASE
objects := $(patsubst drivers/%.c,$(O)/%.o,$(wildcard drivers/*.c))
.DELETE_ON_ERROR:
.PHONY: allnoconfig olddefconfig pi_defconfig Image modules dtbs modules_install dtbs_install
allnoconfig:
	cp $(KCONFIG_ALLCONFIG) $(O)/.config
olddefconfig:
	test -s $(O)/.config
pi_defconfig:
	cp arch/arm64/configs/$@ $(O)/.config
$(O)/b.o: | $(O)/a.o
$(O)/%.o: drivers/%.c
	@echo "  CC      $*.o"; echo $* >> $(O)/compiled
	@! grep -Hn 'error:' $(abspath $<)
	@cp $< $@; file=$$(sed -n 's/^wait //p' $<); while [ -n "$$file" ] && [ -e $$file ]; do sleep 0.02; done
Image: $(objects)
	mkdir -p $(O)/arch/arm64/boot
	cat image $^ > $(O)/arch/arm64/boot/Image
	env | grep -E '^KBUILD_BUILD_|^KCFLAGS|^CC=' | sort >> $(O)/arch/arm64/boot/Image
modules: Image
dtbs: ; cp board.dtb $(O)
modules_install:
	mkdir -p $(INSTALL_MOD_PATH)/lib/modules/$(release)/kernel
	cp nic.ko $(INSTALL_MOD_PATH)/lib/modules/$(release)/kernel
	@file=$$(cat wait-at-install 2>/dev/null); while [ -n "$$file" ] && [ -e $$file ]; do sleep 0.02; done
dtbs_install: ; mkdir $(INSTALL_DTBS_PATH); cp $(O)/board.dtb $(INSTALL_DTBS_PATH)
"""
_FILES: dict[str, str | bytes] = {
    "Makefile": _MAKEFILE.replace("RELEASE", RELEASE),
    "Kbuild": "",
    "MAINTAINERS": "",
    "net/core/dev.c": "",
    "arch/arm64/configs/pi_defconfig": "CONFIG_NET=y\n",
    "image": image(),
    "nic.ko": module("nic"),
    "board.dtb": device_tree(),
    "drivers/a.c": "a\n",
    "drivers/b.c": "b\n",
}
TOOLS = ("aarch64-linux-gnu-gcc", "bc", "bison", "flex", "gcc", "perl")


class KernelRepository:
    """A repository with one commit, tag ``v1``. Commits of a name have the same hash wherever they are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("v1", _FILES)

    def git(self, *words: str) -> str:
        """Run git as the owner of the repository, and return its output."""
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _WHO.items()}
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env={**os.environ, **who}, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, tag: str, files: Mapping[str, str | bytes]) -> str:
        """Commit these texts, and return the hash."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"{tag}: a change")
        self.git("tag", tag)
        return self.git("rev-parse", "HEAD")

    def state(self) -> str:
        """Return a hash of everything in the folder: names, contents and times."""
        found = []
        for path in sorted(self.folder.rglob("*")):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found.append((str(path), status.st_mtime_ns, status.st_mode, hashlib.sha256(content).hexdigest()))
        return hashlib.sha256(repr(found).encode()).hexdigest()


_WHO = {"NAME": "A. Developer", "EMAIL": "dev@example.com", "DATE": "2026-01-01T00:00:00Z"}


def stand_in_tools(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put programs on PATH that a build needs, and that the tiny kernel does not call."""
    folder.mkdir()
    for name in TOOLS:
        tool(folder, name, "echo stand-in 1.0")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
