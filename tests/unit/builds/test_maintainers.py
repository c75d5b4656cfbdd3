"""The file and the maintainers of a driver, by a kernel tree."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_pinet.builds.kernel_tree import KernelTree, owner_of
from pytest_pinet.errors import ConfigError
from tests.support.maintainer_tree import commit_usb, maintainer_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed")
    return maintainer_tree(tmp_path)


@pytest.mark.parametrize(
    ("driver", "file"),
    [
        ("r8152", "drivers/net/usb/r8152.c"),
        ("x_y", "drivers/net/usb/x-y.c"),
        ("r8169", "drivers/net/ethernet/realtek/r8169_main.c"),
        # The driver of genet.ko calls itself bcmgenet.
        ("bcmgenet", "drivers/net/ethernet/broadcom/genet/bcmgenet.c"),
        ("genet", "drivers/net/ethernet/broadcom/genet/bcmgenet.c"),
    ],
)
def test_the_file_of_a_driver(tree: Path, driver: str, file: str) -> None:
    owner = owner_of(driver, KernelTree(tree))
    assert (owner.what, owner.file, owner.source) == (driver, file, "MAINTAINERS of Linux 6.12.117-rc1")
    assert owner.to == ["Doug Berger <opendmb@gmail.com>"]
    assert owner.lists == ["netdev@vger.kernel.org"]
    assert owner.entries == [f"ENTRY OF {file}"]


def test_the_files_of_a_commit(tree: Path) -> None:
    kernel = KernelTree(tree)
    commit = commit_usb(tree)
    owner = kernel.owner_of_commit(commit)
    assert owner.what == f"commit {commit[:12]}"
    assert owner.file == "drivers/net/usb/Makefile and 2 more files"
    assert owner.entries == ["ENTRY OF patch"]
    with pytest.raises(ConfigError, match=r"git format-patch in .* failed: fatal"):
        kernel.owner_of_commit("0" * 40)
    with pytest.raises(ConfigError, match=r"expected the hash of a commit, got '--output=x'"):
        kernel.owner_of_commit("--output=x")


def test_mistakes(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ConfigError, match=r"is no source tree of the kernel; expected a folder with MAINTAINERS and"):
        KernelTree(tmp_path_factory.mktemp("empty"))
    with pytest.raises(ConfigError, match=r"no Makefile below .*drivers/net builds the driver 'nonesuch'"):
        owner_of("nonesuch", KernelTree(tree))
    with pytest.raises(ConfigError, match=r"shipped table does not have the driver 'nonesuch'; give the source of the"):
        owner_of("nonesuch", None)
    with pytest.raises(ConfigError, match=r"expected the name of a driver such as 'bcmgenet', got 'a b'"):
        owner_of("a b", None)
