"""Builds a NIC driver as a developer would: from Debian's sources and headers, with a patch and a cross compiler.

Needs no root.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pytest_pinet.emulated.image import cache, card_image, locked
from pytest_pinet.emulated.packages import Apt
from pytest_pinet.errors import LabError

PATCHES = Path(__file__).parent / "drivers"
# The sources of each driver in the kernel's tree, and the Kbuild file for it. Empty: the tree's own.
SOURCES: Mapping[str, tuple[str, str]] = {
    "asix": ("drivers/net/usb", "obj-m := asix.o\nasix-y := asix_devices.o asix_common.o ax88172a.o\n"),
    # Its own Makefile finds headers only in the kernel's tree.
    "atlantic": ("drivers/net/ethernet/aquantia/atlantic", "ccflags-y += -I$(src)\ninclude $(src)/Makefile\n"),
    "ax88179_178a": ("drivers/net/usb", "obj-m := ax88179_178a.o\n"),
    "e1000e": ("drivers/net/ethernet/intel/e1000e", ""),
    # Its headers are in the folder above.
    "genet": (
        "drivers/net/ethernet/broadcom",
        "obj-m := genet.o\ngenet-y := genet/bcmgenet.o genet/bcmmii.o genet/bcmgenet_wol.o\n",
    ),
    "igb": ("drivers/net/ethernet/intel/igb", ""),
    "igc": ("drivers/net/ethernet/intel/igc", ""),
    "lan78xx": ("drivers/net/usb", "obj-m := lan78xx.o\n"),
    "macb": ("drivers/net/ethernet/cadence", ""),
    "r8152": ("drivers/net/usb", "obj-m := r8152.o\n"),
    "r8169": ("drivers/net/ethernet/realtek", ""),
    "smsc95xx": ("drivers/net/usb", "obj-m := smsc95xx.o\n"),
    "usbnet": ("drivers/net/usb", "obj-m := usbnet.o\n"),
    "virtio_net": ("drivers/net/virtio_net.c", "obj-m := virtio_net.o\n"),
}
CROSS = "aarch64-linux-gnu-"
TOOLS = (f"{CROSS}gcc", "dpkg-deb", "make", "patch", "xz")
UNPACK_TIMEOUT_S = 300.0
BUILD_TIMEOUT_S = 600.0


def patched_module(patch: str | None, folder: Path, driver: str = "e1000e", patches: Path = PATCHES) -> Path:
    """Build ``folder``/``driver``.ko for the boards' own kernel. Builds are cached.

    ``patch`` is the name of a file in the folder ``patches`` without ``.patch``; None builds the driver unchanged.
    Skips the test without a compiler for arm64.
    """
    text = b"" if patch is None else (patches / f"{patch}.patch").read_bytes()
    release, version = _kernel()
    key = hashlib.sha256(f"{release} {version} {SOURCES[driver]} ".encode() + text).hexdigest()[:16]
    kept = cache() / "drivers" / f"{driver}-{key}.ko"
    with locked(kept.parent):
        if not kept.exists():
            _build(_Tree(kept.parent, release, version), driver, text, kept)
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(kept, folder / f"{driver}.ko"))


def driver_sources(folder: Path, driver: str = "e1000e") -> list[str]:
    """Copy the driver's sources to ``folder``. Return the command that builds the module there.

    Skips the test as ``patched_module`` does.
    """
    release, version = _kernel()
    base = cache() / "drivers"
    with locked(base):
        tree = _Tree(base, release, version)
    tree.copy(driver, folder)
    return _make(tree, folder)


def _kernel() -> tuple[str, str]:
    """Return the release and the package version of the boards' own kernel."""
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"a driver is built here with {', '.join(missing)}, which this machine lacks")
    made_of = json.loads((card_image(print).parent / "made-of.json").read_text())
    release: str = made_of["kernel"]
    (version,) = {name.split("_")[1] for name in made_of["packages"] if name.startswith(f"linux-image-{release}_")}
    return release, version


class _Tree:
    """Headers, build scripts and the drivers' sources, all of one version, in the layout that ``make`` needs."""

    def __init__(self, base: Path, release: str, version: str) -> None:
        self._base = base / f"{release}_{version}"
        self.headers = self._base / "usr" / "src" / f"linux-headers-{release}"
        if all((self._base / place).exists() for place, _ in SOURCES.values()):
            return
        for old in base.iterdir():
            # A tree of another kernel, or of a process that was killed.
            if old.is_dir():
                shutil.rmtree(old)
        draft = base / "tree.draft"
        draft.mkdir()
        try:
            self._make(draft, release, version)
            draft.rename(self._base)
        except LabError as error:
            pytest.skip(f"Debian's packages of kernel {release} {version}, which the boards run, are not here: {error}")
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def copy(self, driver: str, folder: Path) -> None:
        """Copy the sources of a driver to ``folder``, which may exist."""
        place, kbuild = SOURCES[driver]
        folder.mkdir(parents=True, exist_ok=True)
        if (self._base / place).is_dir():
            shutil.copytree(self._base / place, folder, dirs_exist_ok=True)
        else:
            shutil.copy(self._base / place, folder)
        if kbuild:
            (folder / "Kbuild").write_text(kbuild)

    def _make(self, root: Path, release: str, version: str) -> None:
        series = ".".join(release.split(".")[:2])
        common = f"linux-headers-{release.rpartition('-')[0]}-common"
        with locked(cache()):
            boards = Apt(cache() / "apt", print)
            boards.update()
            *headers, source = [
                _fetch(boards, name, version) for name in (f"linux-headers-{release}", common, f"linux-source-{series}")
            ]
            for package in headers:
                _run("dpkg-deb", "-x", package, root)
            # Programs that run during the build belong to the build machine. This link names their package.
            build = root / "usr" / "src" / f"linux-headers-{release}"
            scripts = (build / "scripts").readlink().parent.name
            machine = Apt(cache() / "apt-build", print, _run("dpkg", "--print-architecture").strip())
            machine.update()
            _run("dpkg-deb", "-x", _fetch(machine, scripts, version), root)
        makefile = build / "Makefile"
        makefile.write_text(makefile.read_text().replace("/usr/src/", f"{self._base}/usr/src/"))
        _run("dpkg-deb", "-x", source, root / "source")
        (archive,) = (root / "source" / "usr" / "src").glob("linux-source-*.tar.xz")
        # tar finds a place only once.
        places = sorted({f"linux-source-{series}/{place}" for place, _ in SOURCES.values()})
        _run("tar", "-C", root, "--strip-components=1", "-xJf", archive, *places)
        shutil.rmtree(root / "source")
        # It has 140 MB, of which 1 MB is kept.
        source.unlink()


def _fetch(apt: Apt, name: str, version: str) -> Path:
    """Fetch a package in the version of the boards' kernel, or else the newest. Raises LabError.

    Debian publishes each architecture by itself, so its index may lack this version of one package for some days.
    """
    try:
        return apt.fetch(f"{name}={version}")
    except LabError:
        return apt.fetch(name)


def _build(tree: _Tree, driver: str, patch: bytes, target: Path) -> None:
    with TemporaryDirectory(dir=target.parent) as name:
        work = Path(name)
        tree.copy(driver, work)
        if patch:
            # Patches name files by their place in the tree.
            place, _ = SOURCES[driver]
            folders = place.count("/") + (1 if place.endswith(".c") else 2)
            _run("patch", f"-p{folders}", "--fuzz=0", "-d", work, input=patch)
        _run(*_make(tree, work), timeout_s=BUILD_TIMEOUT_S)
        (work / f"{driver}.ko").rename(target)


def _make(tree: _Tree, work: Path) -> list[str]:
    # Without debug information the build takes two thirds of the time and a tenth of the space.
    asked = [f"M={work}", f"CROSS_COMPILE={CROSS}", "KCFLAGS=-g0", f"-j{os.cpu_count()}"]
    return ["make", "-s", "-C", str(tree.headers), *asked, "modules"]


def _run(*argv: str | Path, input: bytes | None = None, timeout_s: float = UNPACK_TIMEOUT_S) -> str:
    words = [str(word) for word in argv]
    done = subprocess.run(words, input=input, capture_output=True, timeout=timeout_s, check=False)
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode == 0, f"`{' '.join(words[:6])}` failed: {output[-2000:]}"
    return done.stdout.decode()
