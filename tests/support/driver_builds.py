"""Builds a NIC driver as a developer would: from Debian's sources and headers, with a patch and a cross compiler.

Needs no root.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pytest_pinet.emulated.image import cache, card_image, locked
from pytest_pinet.emulated.packages import Apt
from pytest_pinet.errors import LabError

PATCHES = Path(__file__).parent / "drivers"
DRIVER = "e1000e"
SOURCE = f"drivers/net/ethernet/intel/{DRIVER}"
CROSS = "aarch64-linux-gnu-"
TOOLS = (f"{CROSS}gcc", "dpkg-deb", "make", "patch", "xz")
UNPACK_TIMEOUT_S = 300.0
BUILD_TIMEOUT_S = 600.0


def patched_module(patch: str | None, folder: Path) -> Path:
    """Build ``folder``/e1000e.ko for the boards' own kernel. Builds are cached.

    ``patch`` is the name of a file in drivers/ without ``.patch``; None builds the driver unchanged. Skips the test
    without a compiler for arm64.
    """
    text = b"" if patch is None else (PATCHES / f"{patch}.patch").read_bytes()
    release, version = _kernel()
    key = hashlib.sha256(f"{release} {version} {SOURCE} ".encode() + text).hexdigest()[:16]
    kept = cache() / "drivers" / f"{DRIVER}-{key}.ko"
    with locked(kept.parent):
        if not kept.exists():
            _build(_Tree(kept.parent, release, version), text, kept)
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(kept, folder / f"{DRIVER}.ko"))


def driver_sources(folder: Path) -> list[str]:
    """Copy the driver's sources to ``folder``. Return the command that builds e1000e.ko there.

    Skips the test as ``patched_module`` does.
    """
    release, version = _kernel()
    base = cache() / "drivers"
    with locked(base):
        tree = _Tree(base, release, version)
    shutil.copytree(tree.source, folder, dirs_exist_ok=True)
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
    """Headers, build scripts and the driver's source, all of one version, in the layout that ``make`` needs."""

    def __init__(self, base: Path, release: str, version: str) -> None:
        self._base = base / f"{release}_{version}"
        self.headers = self._base / "usr" / "src" / f"linux-headers-{release}"
        self.source = self._base / SOURCE
        if self._base.exists():
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

    def _make(self, root: Path, release: str, version: str) -> None:
        series = ".".join(release.split(".")[:2])
        common = f"linux-headers-{release.rpartition('-')[0]}-common"
        with locked(cache()):
            boards = Apt(cache() / "apt", print)
            boards.update()
            # Name the version: these headers do not fit sources of another version.
            names = [f"{name}={version}" for name in (f"linux-headers-{release}", common, f"linux-source-{series}")]
            *headers, source = [boards.fetch(name) for name in names]
            for package in headers:
                _run("dpkg-deb", "-x", package, root)
            # Programs that run during the build belong to the build machine. This link names their package.
            build = root / "usr" / "src" / f"linux-headers-{release}"
            scripts = (build / "scripts").readlink().parent.name
            machine = Apt(cache() / "apt-build", print, _run("dpkg", "--print-architecture").strip())
            machine.update()
            _run("dpkg-deb", "-x", machine.fetch(f"{scripts}={version}"), root)
        makefile = build / "Makefile"
        makefile.write_text(makefile.read_text().replace("/usr/src/", f"{self._base}/usr/src/"))
        _run("dpkg-deb", "-x", source, root / "source")
        (archive,) = (root / "source" / "usr" / "src").glob("linux-source-*.tar.xz")
        _run("tar", "-C", root, "--strip-components=1", "-xJf", archive, f"linux-source-{series}/{SOURCE}")
        shutil.rmtree(root / "source")
        # It has 140 MB, of which 1 MB is kept.
        source.unlink()


def _build(tree: _Tree, patch: bytes, target: Path) -> None:
    with TemporaryDirectory(dir=target.parent) as name:
        work = Path(name)
        shutil.copytree(tree.source, work, dirs_exist_ok=True)
        if patch:
            _run("patch", f"-p{SOURCE.count('/') + 2}", "--fuzz=0", "-d", work, input=patch)
        _run(*_make(tree, work), timeout_s=BUILD_TIMEOUT_S)
        (work / f"{DRIVER}.ko").rename(target)


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
