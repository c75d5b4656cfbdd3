"""Kernels with the options of bcm2711_defconfig and bcm2712_defconfig: built-in drivers, packed modules, preemption."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.exact import store
from pytest_pinet.exact.kernel_config import kernel_config
from pytest_pinet.exact.measure import ExactBench, exact_boards
from pytest_pinet.exact.qemu import PROGRAM
from pytest_pinet.exact.traffic import amounts_of
from pytest_pinet.judge.exact_functions import is_of_driver
from pytest_pinet.model.build import Build
from tests.support.console_blocks import ROOT
from tests.support.driver_builds import PATCHES
from tests.support.gate_project import PINET
from tests.support.kernel_source import NEEDED, configure, make, run, unpacked_source

MISSING = [name for name in (PROGRAM, *NEEDED) if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(bool(MISSING), reason=f"a kernel is built and booted here with {', '.join(MISSING)}"),
]
GATE_TIMEOUT_S = 1800.0
# The board, and whether its driver is built into the kernel. The module cdc_ether handles no frames: usbnet does, which
# is built in.
NICS = {
    "genet": True,
    "macb": True,
    "lan78xx": True,
    "smsc95xx": True,
    "r8152": False,
    "r8156": False,
    "ax88179": False,
    "cdc": False,
    "r8169": False,
    "igc": False,
}
# Built-in drivers with four instructions more. By board: the patch, the window that shows it, and the function.
LONGER = {
    "genet": ("four-instructions-genet-rx", "frame-60-rx", "bcmgenet_rx_poll"),
    "macb": ("four-instructions-macb-rx", "frame-60-rx", "gem_rx"),
    "lan78xx": ("four-instructions-lan78xx-tx", "frame-60-tx", "lan78xx_start_xmit"),
}
SOURCES = (
    "drivers/net/ethernet/broadcom/genet/bcmgenet.c",
    "drivers/net/ethernet/cadence/macb_main.c",
    "drivers/net/usb/lan78xx.c",
)


@dataclass(frozen=True)
class Defconfig:
    """What one defconfig sets beside ``bcm2711.config``, and the boards that its kernel runs on here."""

    image: str
    pages_kib: int
    address_bits: int
    has_perf_events: bool
    boards: tuple[str, ...]
    more: str = ""


DEFCONFIGS = {
    "bcm2711": Defconfig("kernel8.img", 4, 39, True, tuple(NICS)),
    "bcm2712": Defconfig(
        "kernel_2712.img", 16, 47, False, ("genet", "macb", "r8152"),
        # The defconfig has perf events. A kernel without them is counted, too.
        "CONFIG_ARM64_16K_PAGES=y\nCONFIG_ARM64_VA_BITS_47=y\n# CONFIG_PERF_EVENTS is not set\n",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Artefact:
    """A small kernel in the layout that the forge of raspberrypi/linux gives. ``folder`` is it without its packing."""

    defconfig: Defconfig
    source: Path
    out: Path
    folder: Path

    def add_image(self, date: str, *more: str) -> bytes:
        """Build the kernel image with this date of the build, and more targets. Return the image."""
        run(*make(self.source, self.out), f"-j{os.cpu_count()}", f"KBUILD_BUILD_TIMESTAMP={date}", "Image.gz", *more)
        shutil.copy(self.out / "arch/arm64/boot/Image.gz", self.folder / "boot" / self.defconfig.image)
        return (self.out / "arch/arm64/boot/Image").read_bytes()

    def packed(self) -> Path:
        """Return the zip of the forge with the tar in it."""
        tar, found = self.folder.with_suffix(".tar"), self.folder.with_suffix(".zip")
        with tarfile.open(tar, "w") as packing:
            packing.add(self.folder, ".")
        with zipfile.ZipFile(found, "w") as packing:
            packing.write(tar, tar.name)
        return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("source")
    yield unpacked_source(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def artefact_of(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Artefact]]:
    """Return what builds the small kernel of a defconfig, once."""
    folder = tmp_path_factory.mktemp("defconfigs")

    @cache
    def artefact(name: str) -> Artefact:
        found = Artefact(DEFCONFIGS[name], source, folder / name, folder / f"{name}_build")
        configure(source, found.out, (ROOT / "tests/support/bcm2711.config").read_text() + found.defconfig.more)
        (found.folder / "boot").mkdir(parents=True)
        found.add_image("2026-01-01", "modules")
        run(*make(source, found.out), f"INSTALL_MOD_PATH={found.folder}", "modules_install")
        return found

    yield artefact
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def build_of(
    artefact_of: Callable[[str], Artefact], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Build]:
    @cache
    def build(name: str) -> Build:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("unpacked")))
            return load_build(str(artefact_of(name).packed()))

    return build


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "exact_cache", lambda: tmp_path / "exact")


@pytest.mark.parametrize("defconfig", DEFCONFIGS)
def test_its_configuration_is_in_a_module_and_its_modules_are_packed(
    defconfig: str, artefact_of: Callable[[str], Artefact], build_of: Callable[[str], Build]
) -> None:
    artefact, config = artefact_of(defconfig), kernel_config(build_of(defconfig), b"")
    assert config["CONFIG_ARM64_VA_BITS"] == str(artefact.defconfig.address_bits)
    assert ("CONFIG_PERF_EVENTS" in config) == artefact.defconfig.has_perf_events
    modules = [path.name for path in artefact.folder.rglob("*.ko*")]
    assert "r8152.ko.xz" in modules
    assert all(name.endswith(".ko.xz") for name in modules)


@pytest.mark.parametrize(
    ("defconfig", "name"), [(defconfig, name) for defconfig, one in DEFCONFIGS.items() for name in one.boards]
)
def test_two_boots_are_equal_and_show_the_functions_of_the_driver(
    defconfig: str, name: str, build_of: Callable[[str], Build]
) -> None:
    bench = ExactBench(exact_boards()[name])
    payload = bench.payload(build_of(defconfig))
    driver = bench.board.nic.path[-1]
    assert (driver not in payload.modules) == NICS[name]
    assert payload.pages_kib == DEFCONFIGS[defconfig].pages_kib
    found = bench.known_good(payload, print).boot
    assert {(window.traffic, window.direction) for window in found.windows} == {
        (amount.traffic, amount.direction) for amount in amounts_of(bench.board, bench.qemu.version)
    }
    assert found.identity.driver == bench.board.nic.driver
    for window in found.windows:
        own = {one.module for one in window.functions if is_of_driver(one, found.identity)}
        assert ("" if NICS[name] or name == "cdc" else driver) in own


# The last test, because it changes the source.
def test_a_comment_passes_and_longer_functions_of_built_in_drivers_are_listed_first(
    artefact_of: Callable[[str], Artefact], tmp_path: Path, environment: Mapping[str, str]
) -> None:
    artefact = artefact_of("bcm2711")
    good = shutil.copy(artefact.packed(), tmp_path / "good.zip")

    def gate(*words: str) -> str:
        done = subprocess.run(
            [PINET, "gate", "--exact", artefact.folder, f"--against={good}", *words, "-p", "no:cacheprovider",
             *(f"--nic={board}" for board in LONGER)],
            cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=GATE_TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for name in SOURCES:
        path = artefact.source / name
        path.write_text(f"/* One more comment. */\n{path.read_text()}")
    assert b"2031-12-24" in artefact.add_image("2031-12-24")
    out = gate()
    assert re.search(r"^\d+ unchanged; \d+ boots$", out, re.MULTILINE), out

    for patch, _, _ in LONGER.values():
        run("patch", "-p1", "--fuzz=0", "-d", artefact.source, "-i", PATCHES / f"{patch}.patch")
    artefact.add_image("2026-01-01")
    # One boot of each build decides: by these limits, four instructions are no regression.
    gate("--instructions=50%", "--tolerance=60%")
    results = json.loads((tmp_path / ".pinet/latest/results.json").read_text())["results"]
    for board, (_, window, function) in LONGER.items():
        own = (one for one in results if one["exact"]["nic"] == board and one["id"].endswith(f"/{window}"))
        first = next(own)["exact"]["functions"][0]
        assert (first["name"], first["module"]) == (function, "")
        # Around the four, the compiler may place other instructions of the function in another way.
        assert first["b"] - first["a"] >= 3
