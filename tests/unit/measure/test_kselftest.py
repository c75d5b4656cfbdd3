"""Selftests are packed for a board from a folder, an archive or a kernel tree."""

from __future__ import annotations

import os
import platform
import shutil
import tarfile
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.measure.kselftest import packed
from tests.support.kselftests import kselftest_folder

# The part of the kernel's Makefile that decides what is installed; it writes down how it was called.
MAKEFILE = """\
install:
\tmkdir -p $(INSTALL_PATH)
\techo "$(TARGETS) $(ARCH) $(CROSS_COMPILE) [$(TEST_GEN_FILES)]" >$(INSTALL_PATH)/run_kselftest.sh
TEST_GEN_FILES = program
"""


def names_in(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return [one.name for one in tar if one.isfile()]


def tree(folder: Path, makefile: str = MAKEFILE) -> str:
    (folder / "tools/testing/selftests/drivers/net").mkdir(parents=True)
    (folder / "tools/testing/selftests/Makefile").write_text(makefile)
    return str(folder)


def test_a_folder_of_installed_selftests(tmp_path: Path) -> None:
    with packed(str(kselftest_folder(tmp_path / "k")), "drivers/net", "aarch64") as archive:
        assert "./drivers/net/passes.sh" in names_in(archive)
    assert not archive.exists()


def test_an_archive_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kselftest.tar.xz").write_bytes(b"")
    with packed(str(tmp_path / "kselftest.tar.xz"), "drivers/net", "aarch64") as archive:
        assert archive == tmp_path / "kselftest.tar.xz"


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("rsync") is None, reason="make or rsync is missing")
@pytest.mark.parametrize(
    ("machine", "compiler", "called"),
    [
        (platform.machine(), "", "drivers/net   [program]"),
        ("aarch64", "exit 0", "drivers/net arm64 aarch64-linux-gnu- [program]"),
        # Without a compiler for the board, or with one that has no C library, only the scripts.
        ("aarch64", "", "drivers/net arm64 aarch64-linux-gnu- []"),
        ("aarch64", "exit 1", "drivers/net arm64 aarch64-linux-gnu- []"),
    ],
)
def test_a_kernel_tree_is_installed_for_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, compiler: str, called: str
) -> None:
    here = shutil.which
    if compiler:
        (tmp_path / "aarch64-linux-gnu-gcc").write_text(f"#!/bin/sh\n{compiler}\n")
        (tmp_path / "aarch64-linux-gnu-gcc").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    else:
        monkeypatch.setattr(shutil, "which", lambda name: None if "gcc" in name else here(name))
    if machine == "aarch64" == platform.machine():
        pytest.skip("this machine has the processor of the boards")
    with packed(tree(tmp_path), "drivers/net", machine) as archive, tarfile.open(archive) as tar:
        file = tar.extractfile("./run_kselftest.sh")
        assert file is not None
        assert file.read().decode().strip() == called


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the scripts, whether or not this machine has a compiler for the board.
    monkeypatch.setattr(shutil, "which", lambda name: None if "gcc" in name else name)
    with (
        pytest.raises(ConfigError, match=r"has no selftests; expected a kernel tree, or installed selftests"),
        packed(str(tmp_path), "drivers/net", "aarch64"),
    ):
        pass
    source = tree(tmp_path / "tree", "install:\n\techo no rule for this >&2; exit 1\n")
    with pytest.raises(ConfigError, match=r"has no collection drivers/none"), packed(source, "drivers/none", "aarch64"):
        pass
    with (
        pytest.raises(ConfigError, match=r"make install of drivers/net in .* failed: .*"),
        packed(source, "drivers/net", "aarch64"),
    ):
        pass
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "rsync" else name)
    with pytest.raises(ConfigError, match=r"without rsync; apt install rsync"), packed(source, "drivers/net", "x"):
        pass
