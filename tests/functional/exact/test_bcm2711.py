"""A kernel with the options of bcm2711_defconfig: built-in drivers, packed modules, preemption, 39 bits of address."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
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
from tests.support.kernel_source import NEEDED, configure, make, run, unpacked_source

MISSING = [name for name in (PROGRAM, *NEEDED) if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(bool(MISSING), reason=f"a kernel is built and booted here with {', '.join(MISSING)}"),
]
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
}


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    """Build a small kernel from Debian's source, in the layout that the forge of raspberrypi/linux gives."""
    folder = tmp_path_factory.mktemp("bcm2711")
    source, out, made = unpacked_source(folder), folder / "out", folder / "artefact"
    configure(source, out, (ROOT / "tests/support/bcm2711.config").read_text())
    run(*make(source, out), f"-j{os.cpu_count()}", "Image.gz", "modules")
    run(*make(source, out), f"INSTALL_MOD_PATH={made}", "modules_install")
    (made / "boot").mkdir()
    shutil.copy(out / "arch/arm64/boot/Image.gz", made / "boot/kernel8.img")
    shutil.rmtree(source)
    shutil.rmtree(out)
    yield load_build(str(made))
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "exact_cache", lambda: tmp_path / "exact")


def test_its_configuration_is_in_a_module(artefact: Build) -> None:
    assert kernel_config(artefact, b"")["CONFIG_ARM64_VA_BITS_39"] == "y"


@pytest.mark.parametrize("name", NICS)
def test_two_boots_are_equal_and_show_the_functions_of_the_driver(name: str, artefact: Build) -> None:
    bench = ExactBench(exact_boards()[name])
    payload = bench.payload(artefact)
    driver = bench.board.nic.path[-1]
    assert (driver not in payload.modules) == NICS[name]
    found = bench.known_good(payload, print).boot
    assert {(window.traffic, window.direction) for window in found.windows} == {
        (amount.traffic, amount.direction) for amount in amounts_of(bench.board, bench.qemu.version)
    }
    assert found.identity.driver == bench.board.nic.driver
    for window in found.windows:
        own = {one.module for one in window.functions if is_of_driver(one, found.identity)}
        assert ("" if NICS[name] or name == "cdc" else driver) in own
