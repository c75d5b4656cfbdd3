"""The file and the maintainers of a driver, by a kernel tree."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.builds.maintainers import KernelTree, owner_of
from pytest_pinet.errors import ConfigError

# Answers as get_maintainer.pl of Linux 6.12 does for each file.
SCRIPT = r"""
my $file = $ARGV[-1];
$file = "patch" if $file eq "-";
print "Doug Berger <opendmb\@gmail.com> (supporter:ENTRY OF $file)\n";
print "netdev\@vger.kernel.org (open list:ENTRY OF $file)\nlinux-kernel\@vger.kernel.org (open list)\n";
"""
MAKEFILES = {
    "drivers/net/usb/Makefile": "obj-$(CONFIG_USB_RTL8152)\t+= r8152.o\nobj-$(CONFIG_X) += x-y.o\n",
    "drivers/net/ethernet/realtek/Makefile": "r8169-y\t+= a_main.o r8169_main.o\nobj-$(CONFIG_R8169) += r8169.o\n",
    "drivers/net/ethernet/broadcom/genet/Makefile": "obj-$(CONFIG_BCMGENET) += genet.o\ngenet-objs := bcmgenet.o\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed")
    sources = ("usb/r8152.c", "usb/x-y.c", "ethernet/realtek/r8169_main.c", "ethernet/broadcom/genet/bcmgenet.c")
    files = {
        "MAINTAINERS": "",
        "scripts/get_maintainer.pl": SCRIPT,
        "Makefile": "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION = -rc1\n",
        **MAKEFILES,
        **{f"drivers/net/{name}": "" for name in sources},
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


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
    git = ["git", "-C", str(tree), "-c", "user.name=me", "-c", "user.email=me@localhost"]
    for words in (["init", "-q"], ["add", "drivers/net/usb"], ["commit", "-qm", "usb"]):
        subprocess.run([*git, *words], check=True)
    kernel = KernelTree(tree)
    commit = kernel.git("rev-parse", "HEAD")
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
