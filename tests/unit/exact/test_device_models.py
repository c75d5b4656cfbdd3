"""Device models: they compile without a warning, a QEMU proves itself first, and the device tree has their nodes."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from pytest_pinet.errors import CapabilityError
from pytest_pinet.evidence.fdt import cells, text
from pytest_pinet.exact import device_models
from pytest_pinet.exact.board import NICS
from pytest_pinet.exact.device_models import model_for
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.qemu import Qemu, compiled

BOARDS = exact_boards()
GENET = BOARDS["genet"]
SOURCES = Path(str(resources.files("pytest_pinet.exact").joinpath("devices")))
SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PINET_QEMU", raising=False)


def fake_qemu(folder: Path, script: str) -> Qemu:
    (folder / "qemu").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "qemu").chmod(0o755)
    return Qemu((str(folder / "qemu"),), (7, 2, 22), script)


@pytest.mark.parametrize("api", [1, 4])
@pytest.mark.parametrize("source", sorted(one.name for one in SOURCES.glob("*.c")))
def test_a_model_compiles_without_a_warning(source: str, api: int, tmp_path: Path) -> None:
    argv = ["cc", "-shared", "-fPIC", "-pthread", "-O2", "-Wall", "-Wextra", "-Werror", f"-DAPI={api}"]
    done = subprocess.run(
        [*argv, "-o", tmp_path / "model.so", SOURCES / source], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0


def said_by_driver(driver: str, model: str, folder: Path) -> str:
    """Build a driver of tests/support with a model, and run it. Return what it says, or how it ended."""
    argv = ["cc", "-O1", "-g", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DAPI=1"]
    argv += [f'-DMODEL="{model}"', "-I", str(SOURCES), "-o", str(folder / "driver"), str(SUPPORT / driver)]
    subprocess.run(argv, check=True, timeout=120)
    # No model gives its memory back: models exist as long as QEMU runs.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(
        [folder / "driver"], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr[-4000:]} exit code {done.returncode}"


@pytest.mark.parametrize("source", sorted(one.name for one in SOURCES.glob("*.c") if one.name != "selftest.c"))
def test_a_driver_that_does_everything_wrong_leads_no_model_out_of_its_buffers(source: str, tmp_path: Path) -> None:
    assert said_by_driver("wild_driver.c", source, tmp_path) == "inside of all buffers\n"


def test_genet_serves_drivers_that_use_the_default_ring_and_drivers_that_use_ring_0(tmp_path: Path) -> None:
    assert said_by_driver("genet_rings.c", "genet.c", tmp_path) == "both layouts work\n"


def test_the_hash_of_a_model_knows_each_of_its_sources() -> None:
    sources = {"model.c": b'#include "cable.h"\n', "cable.h": b"int one;\n"}
    other = {**sources, "cable.h": b"int two;\n"}
    first, second = (compiled(own, 1) for own in (sources, other))
    assert first != second
    assert compiled(sources, 1) == first


@pytest.mark.parametrize("source", sorted(SOURCES.iterdir()), ids=lambda path: path.name)
def test_a_model_may_be_loaded_into_qemu(source: Path) -> None:
    assert " * SPDX-License-Identifier: GPL-2.0-or-later\n" in source.read_text()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("kill -SEGV $$", "its self-test ended with signal 11"),
        ("echo 'Could not load plugin x: undefined symbol: qdev_get_gpio_in' >&2; exit 1", "Could not load plugin x: "),
        ("echo 'pinet-selftest: an interrupt does not arrive'", "pinet-selftest: an interrupt does not arrive"),
        ("exit 3", "its self-test ended with 3"),
        ("exec sleep 60", "its self-test gave no answer within 0.5 s"),
    ],
)
def test_a_qemu_that_cannot_load_models_is_one_sentence(
    script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(device_models, "SELFTEST_S", 0.5)
    qemu = fake_qemu(tmp_path, script)
    for _ in range(2):
        with pytest.raises(CapabilityError) as raised:
            model_for(GENET, qemu)
        assert raised.value.message.startswith(
            "the exact board genet needs a device model of its NIC, but "
            f"{tmp_path}/qemu (QEMU 7.2.22) cannot load one: {why}"
        )
        assert "run `pinet emulated qemu`" in raised.value.message
        assert "\n" not in raised.value.message


def test_without_a_compiler_the_board_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        CapabilityError, match=r"^the exact board genet needs a device model of its NIC: this machine has"
    ):
        model_for(GENET, Qemu(("qemu",), (7, 2), ""))


def test_two_processors_and_a_newer_qemu_are_not_tried() -> None:
    two = replace(GENET, machine=replace(GENET.machine, processors=2))
    with pytest.raises(CapabilityError, match=r"but QEMU 10\.0\.2 aborts if a plugin is loaded and a second processor"):
        model_for(two, Qemu(("qemu",), (10, 0, 2), ""))


def test_genet_has_its_mac_its_phy_and_its_interrupts() -> None:
    found = GENET.nic.model.nodes({"/": {}, "/gic": {"phandle": cells(0x8002)}}) if GENET.nic.model else {}
    first, second = (found[f"/ethernet@{at:x}"] for at in (0x0B000000, 0x0B100000))
    assert first["local-mac-address"] == bytes.fromhex("020000000001")
    assert first["interrupts"] == cells(0, 176, 4, 0, 177, 4)
    assert second["interrupts"] == cells(0, 180, 4, 0, 181, 4)
    assert second["phy-handle"] == found["/ethernet@b100000/mdio@e14/ethernet-phy@1"]["phandle"] == cells(0x8004)
    assert found["/aliases"] == {"eth0": text("/ethernet@b000000"), "eth1": text("/ethernet@b100000")}


def test_each_pci_card_has_a_bridge_with_a_line_for_its_messages() -> None:
    found = BOARDS["r8169"].nic.model.nodes({"/gic": {"phandle": cells(0x8002)}}) if BOARDS["r8169"].nic.model else {}
    assert [*found] == ["/pcie@b000000", "/pcie@b100000"]
    for index, bridge in enumerate(found.values()):
        # The driver sets up its own controller of messages only if the bridge is its own parent.
        assert bridge["msi-parent"] == bridge["phandle"] == cells(0x8003 + index)
        assert bridge["interrupts"] == cells(0, 176 + 4 * index, 4, 0, 177 + 4 * index, 4)
        assert bridge["ranges"] == cells(0x02000000, 0, *[0x0B200000 + index * 0x100000, 0] * 2, 0x100000)


def test_gem_has_its_clocks_its_phy_and_the_name_that_each_kernel_knows() -> None:
    model = BOARDS["macb"].nic.model
    found = model.nodes({"/": {}, "/gic": {"phandle": cells(0x8002)}}) if model else {}
    first, second = (found[f"/ethernet@{at:x}"] for at in (0x0B000000, 0x0B100000))
    assert first["compatible"] == b"raspberrypi,rp1-gem\0cdns,macb\0"
    assert second["local-mac-address"] == bytes.fromhex("020000000002")
    assert (first["interrupts"], second["interrupts"]) == (cells(0, 176, 4), cells(0, 180, 4))
    clocks = [found[f"/{name}"]["phandle"] for name in ("clock-sys", "clock-sys", "clock-eth-tsu", "clock-eth")]
    assert first["clocks"] == second["clocks"] == b"".join(clocks)
    phys = [found[f"/ethernet@{at}/ethernet-phy@1"]["phandle"] for at in ("b000000", "b100000")]
    assert [first["phy-handle"], second["phy-handle"]] == phys
    assert len({*clocks, *phys}) == 5


def test_each_nic_names_its_own_module_last() -> None:
    assert {name: nic.path[-1] for name, nic in NICS.items()}.items() >= {"genet": "genet", "gem": "macb"}.items()
