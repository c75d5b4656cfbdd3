"""When the cache answers for an exact board, and what is said of a board that is not exact. QEMU is replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import LabError
from pytest_pinet.exact import measure
from pytest_pinet.exact.device_models import Model
from pytest_pinet.exact.measure import ExactBench, exact_boards, stock_release
from pytest_pinet.exact.payload import KernelImage, Payload, make_payload
from pytest_pinet.exact.qemu import Plugin, Qemu
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot
from tests.support.build_files import RELEASE, image, module, tree, write
from tests.support.exact_boots import KNOWN_GOOD

MACB = exact_boards()["macb"]
QEMU = Qemu(("qemu",), (7, 2, 22), "hash of QEMU")
PLUGIN = Plugin(Path("count.so"), 1, "hash of the plugin")
Change = Callable[[ExactBench, Payload], Payload]


def with_bench(**parts: object) -> Change:
    def change(bench: ExactBench, payload: Payload) -> Payload:
        for name, value in parts.items():
            setattr(bench, name, value)
        return payload

    return change


CHANGES: dict[str, Change] = {
    "kernel": lambda _, payload: replace(payload, image=KernelImage(payload.image.data + b"\0")),
    "initramfs": lambda _, payload: replace(payload, script=(*payload.script, "another")),
    "command line": lambda _, payload: replace(payload, words=f"{payload.words} quiet"),
    "meaningless change": lambda _, payload: payload.vary(1),
    "QEMU": with_bench(qemu=replace(QEMU, sha256="another")),
    "device model": with_bench(model=lambda _: Model(Path("gem.so"), "", b"", "hash of another model")),
    "plugin": with_bench(plugin=replace(PLUGIN, sha256="another")),
    "machine": lambda _, payload: replace(payload, board=replace(MACB, machine=MACB.machine.for_pages(16))),
    "board": with_bench(board=replace(MACB, name="another")),
}


@pytest.fixture
def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(measure, "find_qemu", lambda _: QEMU)
    monkeypatch.setattr(measure, "plugin_for", lambda *_: PLUGIN)
    monkeypatch.setattr(measure, "model_for", lambda *_: Model(Path("gem.so"), "", b"", "hash of the model"))
    modules = {name: module(name) for name in ("macb", "phylink", "pktgen")}
    return load_build(str(write(tmp_path / "stock", {"Image": image(), **tree(RELEASE, **modules)})))


def booting(banners: list[str]) -> Callable[..., ExactBoot]:
    """Return a boot that says these words, one after the other."""

    def boot(*_: object, **__: object) -> ExactBoot:
        return replace(KNOWN_GOOD, identity=replace(KNOWN_GOOD.identity, banner=banners.pop(0)))

    return boot


@pytest.mark.parametrize("part", CHANGES)
def test_each_part_that_values_depend_on_is_booted_again(
    stock: Build, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    banners = ["first", "second"]
    monkeypatch.setattr(measure, "boot", booting(banners))
    bench = ExactBench(MACB)
    payload = bench.payload(stock)
    assert [bench.measured(payload, print).boot.identity.banner for _ in range(2)] == ["first"] * 2
    other = CHANGES[part](bench, payload)
    assert bench.measured(other, print).boot.identity.banner == "second"
    assert ExactBench(MACB).is_measured(payload)


def test_the_modules_and_the_traffic_are_in_the_initramfs(stock: Build, tmp_path: Path) -> None:
    bench = ExactBench(MACB)
    payload = bench.payload(stock)
    driver = write(tmp_path / "new", {"macb.ko": module("macb", srcversion="NEW")}) / "macb.ko"
    others = (bench.payload(stock, load_build(str(driver))), make_payload(MACB, stock, None, amounts=()))
    assert payload.initramfs not in [one.initramfs for one in others]


def test_the_ordinary_gate_is_offered_where_two_boots_differ(stock: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = booting(["first", "second"])

    def twice(*words: object) -> tuple[ExactBoot, ExactBoot]:
        return boot(*words), boot(*words)

    monkeypatch.setattr(measure, "boot_twice", twice)
    bench = ExactBench(MACB)
    with pytest.raises(LabError, match=r"the exact board macb is not exact on this machine: .*first.*second") as caught:
        bench.known_good(bench.payload(stock), print)
    assert "pinet gate BUILD --lab emulated (e1000e, virtio-net)" in caught.value.act
    assert not bench.is_proved(bench.payload(stock))


def test_the_release_of_the_stock_kernel_is_in_the_name_of_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path("/apt/linux-image-6.12.73+deb13-arm64_6.12.73-1_arm64.deb")
    monkeypatch.setattr(measure, "kernel_package", lambda *_: package)
    assert stock_release(print) == "6.12.73+deb13-arm64"
