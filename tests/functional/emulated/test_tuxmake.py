"""A kernel that TuxMake built is gated on emulated boards; its commit and its configuration stay with the result."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.builds.tree import with_dependencies
from pytest_pinet.emulated.image import kernel_package
from pytest_pinet.emulated.packages import WANTED
from pytest_pinet.model.build import BuildFileRole
from tests.support.emulated_gate import NEEDS, EmulatedGate, card_or_skip, emulated_gate

TUXMAKE = Path(sys.executable).with_name("tuxmake")
REPOSITORY = "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git"
_MAKEFILE = """\
all olddefconfig modules dtbs:
defconfig:
	mkdir -p $(O) && printf 'CONFIG_ARM64=y\\nCONFIG_MODULES=y\\n' > $(O)/.config
kernelrelease kernelversion:
	@ls stock/lib/modules
Image.gz:
	mkdir -p $(O)/arch/arm64/boot && cp stock/Image.gz $(O)/arch/arm64/boot
modules_install:
	mkdir -p $(INSTALL_MOD_PATH) && cp -r stock/lib $(INSTALL_MOD_PATH)
"""
_TOOLS = ("gcc", "ld", "nm", "objcopy", "strip", "as", "ar")


def kernel_tree(folder: Path, package: Path) -> str:
    """Make a git repository of the tree in ``folder``, for the kernel of a Debian package. Return its commit."""
    stock = folder / "stock"
    build = load_build(str(package))
    (kernel,), (tree,) = build.of(BuildFileRole.KERNEL), build.of(BuildFileRole.MODULES)
    stock.mkdir(parents=True)
    (stock / "Image.gz").write_bytes(gzip.compress(Path(kernel.path).read_bytes(), compresslevel=1))
    target = stock / "lib/modules" / tree.name
    named = [one.name for one in build.modules.values() if any(fnmatchcase(one.path[7:], each) for each in WANTED)]
    for one in with_dependencies(build.modules, named):
        (target / one.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(tree.path) / one.path, target / one.path)
    for path in Path(tree.path).glob("modules.*"):
        shutil.copy(path, target)
    for name in ("Kconfig", "Kbuild"):
        (folder / name).touch()
    (folder / "Makefile").write_text(_MAKEFILE)
    (folder / ".gitignore").write_text("stock\n")
    (folder / "arch/arm64/configs").mkdir(parents=True)
    (folder / "arch/arm64/configs/defconfig").touch()
    git = ["git", "-C", str(folder), "-c", "user.name=pinet", "-c", "user.email=pinet@localhost"]
    for words in (["init", "-q", "-b", "master"], ["add", "."], ["commit", "-q", "-m", "tree"], ["tag", "v6.99"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "remote", "add", "origin", REPOSITORY], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def run_tuxmake(tree: Path, output: Path) -> None:
    """Build the tree with TuxMake."""
    tools = tree.parent / "tools"
    tools.mkdir()
    for name in _TOOLS:
        (tools / f"aarch64-linux-gnu-{name}").symlink_to(shutil.which(name) or "/bin/false")
    words = ["-r", "null", "-a", "arm64", "-t", "gcc", "-o", str(output), "config", "kernel", "modules"]
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    subprocess.run([TUXMAKE, *words], cwd=tree, env=environment, check=True)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    *NEEDS,
    pytest.mark.skipif(not TUXMAKE.exists(), reason="TuxMake is not installed"),
]
# Another release than the boards' own.
KERNEL = "linux-image-rt-arm64"


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedGate]:
    yield from emulated_gate(tmp_path_factory)


def test_a_folder_of_tuxmake_is_gated(gate: EmulatedGate, tmp_path: Path) -> None:
    with card_or_skip():
        package = kernel_package(KERNEL, lambda _: None)
    commit = kernel_tree(tmp_path / "linux", package)
    run_tuxmake(tmp_path / "linux", tmp_path / "out")

    gate.switch(on=False)
    # The kernel with PREEMPT_RT may be slower.
    assert gate.run(str(tmp_path / "out"), "-k", "rx", "--boots=6") in (0, 1), gate.text

    assert f"kernel {next((tmp_path / 'linux/stock/lib/modules').iterdir()).name}" in gate.text
    source = gate.head["b"]["source"]
    assert source | {"compiler": ""} == {
        "made_by": "TuxMake",
        "place": str(tmp_path / "out"),
        "tree": REPOSITORY,
        "branch": "master",
        "commit": commit,
        "describe": "v6.99",
        "compiler": "",
        "config": "build-B.config",
    }
    kept = gate.project.path / ".pinet/latest" / source["config"]
    assert kept.read_text() == "CONFIG_ARM64=y\nCONFIG_MODULES=y\n"
    assert gate.project.pinet("report", "-o", "report.html").returncode == 0
    page = (gate.project.path / "report.html").read_text()
    assert f'href="{REPOSITORY}/commit/?id={commit}"' in page
